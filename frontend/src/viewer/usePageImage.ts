/** Page images as object URLs: the token is sent in a header, never in a URL. */

import { useQuery } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { pageImageQuery, smallImageQuery } from '../fields/extractionQueries';

interface Shown {
  url: string | null;
  failed: boolean;
}

export function usePageImage(documentId: string, number: number): Shown {
  const { data, isError } = useQuery(pageImageQuery(documentId, number));
  return { url: useObjectUrl(data), failed: isError };
}

/** `enabled`: whether to load it now. */
export function useSmallImage(documentId: string, number: number, width: number, enabled: boolean): Shown {
  const { data, isError } = useQuery({ ...smallImageQuery(documentId, number, width), enabled });
  return { url: useObjectUrl(data), failed: isError };
}

function useObjectUrl(data: Blob | undefined): string | null {
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
  return url;
}
