/** A small image of a document's first page. */

import { useQuery } from '@tanstack/react-query';
import { FileText } from 'lucide-react';
import { smallImageQuery } from '../fields/extractionQueries';
import { useIsStill } from '../shared/useIsStill';
import { useObjectUrl } from '../shared/useObjectUrl';

const WIDTH = 64; // pixels, the smallest that the API makes

/** `isReadable`: whether the document's file has pages. */
export function Thumbnail({ documentId, isReadable }: { documentId: string; isReadable: boolean }) {
  const isStill = useIsStill();
  const image = useQuery({ ...smallImageQuery(documentId, 1, WIDTH), enabled: isStill && isReadable, retry: false });
  const url = useObjectUrl(image.data);
  return (
    <span
      className={
        'grid h-6.5 w-5 shrink-0 place-items-center overflow-hidden rounded-xs border border-border bg-white text-[#868e9b] max-sm:hidden'
      }
      aria-hidden="true">
      {url === null ? (
        <FileText size={14} aria-hidden="true" />
      ) : (
        <img src={url} alt="" className="size-full object-cover object-top" />
      )}
    </span>
  );
}
