/** The head of a document's first page, which says more of it than a small image of the whole page. */

import { queryOptions, useQuery } from '@tanstack/react-query';
import { FileText } from 'lucide-react';
import { fetchFile } from '../api/client';
import { cn } from '../components/ui/cn';
import { useIsStill } from '../shared/useIsStill';
import { useObjectUrl } from '../shared/useObjectUrl';

/** The upper left of a page, as the API adds a margin: 60 % of its width, and a sixth of its height. */
const HEAD = '0,0.055,0.49,0.11';
const WIDTH = 160; // pixels

const headQuery = (documentId: string) =>
  queryOptions({
    queryKey: ['page image', documentId, 'head'],
    queryFn: ({ signal }) =>
      fetchFile(`/api/documents/${encodeURIComponent(documentId)}/pages/1.png?width=${WIDTH}&box=${HEAD}`, { signal }),
    staleTime: Infinity,
    gcTime: 300_000,
    retry: false,
  });

/** `isReadable`: whether the file has pages. */
export function Letterhead({ documentId, isReadable, className }: Props) {
  const isStill = useIsStill();
  const image = useQuery({ ...headQuery(documentId), enabled: isStill && isReadable });
  const url = useObjectUrl(image.data);
  return (
    <span
      aria-hidden="true"
      className={cn(
        'flex shrink-0 items-center justify-center overflow-hidden rounded-xs border border-border text-faint',
        url === null ? 'bg-muted' : 'bg-white',
        className ?? 'h-8 w-20',
      )}>
      {url === null ? (
        <FileText size={14} strokeWidth={1.5} />
      ) : (
        <img src={url} alt="" className="size-full object-cover object-left-top" />
      )}
    </span>
  );
}

interface Props {
  documentId: string;
  isReadable: boolean;
  className?: string;
}
