/** A small image of a document's first page. */

import { useQuery } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { smallImageQuery } from '../fields/extractionQueries';
import { Icon } from '../shared/Icon';

const WIDTH = 64; // pixels, the smallest that the API makes
const DELAY_MS = 150;

/** `isReadable`: whether the document's file has pages. */
export function Thumbnail({ documentId, isReadable }: { documentId: string; isReadable: boolean }) {
  // Rows that are only scrolled past load no image.
  const [isStill, setStill] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setStill(true), DELAY_MS);
    return () => clearTimeout(timer);
  }, []);
  const image = useQuery({ ...smallImageQuery(documentId, 1, WIDTH), enabled: isStill && isReadable, retry: false });
  const [url, setUrl] = useState<string | null>(null);
  useEffect(() => {
    if (image.data === undefined) return undefined;
    const made = URL.createObjectURL(image.data);
    setUrl(made);
    return () => {
      URL.revokeObjectURL(made);
      setUrl(null);
    };
  }, [image.data]);
  return (
    <span
      className={
        'grid h-6.5 w-5 shrink-0 place-items-center overflow-hidden rounded-xs border border-border bg-white text-[#868e9b] max-sm:hidden'
      }
      aria-hidden="true">
      {url === null ? (
        <Icon name="page" size={14} />
      ) : (
        <img src={url} alt="" className="size-full object-cover object-top" />
      )}
    </span>
  );
}
