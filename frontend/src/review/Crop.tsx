/** The part of a page around a value, enlarged, with a box around the value. */

import { queryOptions, useQuery } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { picture } from '../api/client';
import type { Box } from '../api/types';
import styles from './Review.module.css';

const WIDTH = 900; // pixels: sharp on a screen with two for one
const LEAST = 0.1; // of the page's width: a short word alone would be as large as a poster

export const cropQuery = (documentId: string, page: number, box: Box, width = WIDTH) => {
  // (The service shows some of what stands around it, and says how much.)
  const path = `/api/documents/${encodeURIComponent(documentId)}/pages/${page}.png?width=${width}&box=${wide(box).join(',')}`;
  return queryOptions({ queryKey: ['crop', path], queryFn: ({ signal }) => picture(path, signal), staleTime: Infinity, gcTime: 60_000 });
};

interface Props {
  documentId: string;
  page: number;
  box: Box;
  /** Of the picture, in pixels. */
  width?: number;
  /** It is not asked for now: who scrolls past does not look. */
  isPaused?: boolean;
}

export function Crop({ documentId, page, box, width = WIDTH, isPaused = false }: Props) {
  const { data, isError } = useQuery({ ...cropQuery(documentId, page, box, width), enabled: !isPaused });
  const [url, setUrl] = useState<string | null>(null);
  useEffect(() => {
    if (data === undefined) return undefined;
    const made = URL.createObjectURL(data.blob);
    setUrl(made);
    return () => {
      URL.revokeObjectURL(made);
      setUrl(null);
    };
  }, [data]);
  const [x0, y0, x1, y1] = within(box, data?.box ?? box);
  return (
    <figure className={styles.crop} aria-label={`As page ${page} prints it`}>
      {url !== null && (
        <>
          <img src={url} alt="" />
          <svg viewBox="0 0 1 1" preserveAspectRatio="none" aria-hidden="true">
            <rect x={x0} y={y0} width={x1 - x0} height={y1 - y0} />
          </svg>
        </>
      )}
      {isError && <p className="muted">The picture of this place could not be made.</p>}
    </figure>
  );
}

function wide([x0, y0, x1, y1]: Box): Box {
  const more = Math.max(0, LEAST - (x1 - x0)) / 2;
  return [Math.max(0, x0 - more), y0, Math.min(1, x1 + more), y1];
}

/** A box of the page in parts of another one. */
function within([x0, y0, x1, y1]: Box, [left, top, right, bottom]: Box): Box {
  return [(x0 - left) / (right - left), (y0 - top) / (bottom - top), (x1 - left) / (right - left), (y1 - top) / (bottom - top)];
}
