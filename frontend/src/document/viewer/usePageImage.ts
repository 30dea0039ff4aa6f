/** The picture of a page as an address that an <img> can show: the token goes with the request, never in an address. */

import { useQuery } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { pageImageQuery, smallImageQuery } from '../documentPageQueries';

interface Shown {
  url: string | null;
  failed: boolean;
}

export function usePageImage(documentId: string, number: number): Shown {
  const { data, isError } = useQuery(pageImageQuery(documentId, number));
  return { url: useAddress(data), failed: isError };
}

/** `wanted`: whether it is asked for now, where it is not there yet. */
export function useSmallImage(documentId: string, number: number, width: number, wanted: boolean): Shown {
  const { data, isError } = useQuery({ ...smallImageQuery(documentId, number, width), enabled: wanted });
  return { url: useAddress(data), failed: isError };
}

function useAddress(data: Blob | undefined): string | null {
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
