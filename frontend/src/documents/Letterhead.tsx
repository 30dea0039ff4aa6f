/** The head of a document's first page, which says more of it than a small image of the whole page. */

import { queryOptions, useQuery } from '@tanstack/react-query';
import { FileText } from 'lucide-react';
import { useEffect, useState } from 'react';
import { fetchFile } from '../api/client';
import { cn } from '../components/ui/cn';

const DELAY_MS = 150;
/** The upper third of a page, as the API adds a margin. Twice as wide as high. */
const HEAD = '0,0.12,1,0.23';
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
  // Rows that are only scrolled past load no image.
  const [isStill, setStill] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setStill(true), DELAY_MS);
    return () => clearTimeout(timer);
  }, []);
  const image = useQuery({ ...headQuery(documentId), enabled: isStill && isReadable });
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
      aria-hidden="true"
      className={cn(
        'flex shrink-0 items-center justify-center overflow-hidden rounded-xs border border-border text-faint',
        url === null ? 'bg-muted' : 'bg-white',
        className ?? 'h-7 w-14',
      )}>
      {url === null ? (
        <FileText size={14} strokeWidth={1.5} />
      ) : (
        <img src={url} alt="" className="size-full object-cover object-top" />
      )}
    </span>
  );
}

interface Props {
  documentId: string;
  isReadable: boolean;
  className?: string;
}
