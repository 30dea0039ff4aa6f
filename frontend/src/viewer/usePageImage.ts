/** Page images as object URLs. */

import { useQuery } from '@tanstack/react-query';
import { useObjectUrl } from '../shared/useObjectUrl';
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
