/** The picture of a page as an address that an <img> can show: the token goes with the request, never in an address. */

import { useQuery } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { pageImageQuery } from '../documentPageQueries';

export function usePageImage(documentId: string, number: number): { url: string | null; failed: boolean } {
  const { data, isError } = useQuery(pageImageQuery(documentId, number));
  const [url, setUrl] = useState<string | null>(null);
  useEffect(() => {
    if (data === undefined) return undefined;
    const made = URL.createObjectURL(data);
    setUrl(made);
    return () => {
      URL.revokeObjectURL(made);
      setUrl(null);
    };
  }, [data]);
  return { url, failed: isError };
}
