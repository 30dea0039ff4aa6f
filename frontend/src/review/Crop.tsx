/** An excerpt of a page: the area around a value, with a box around the value. */

import { queryOptions, useQuery } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { fetchCrop } from '../api/client';
import type { Box } from '../api/types';
import { t } from '../shared/i18n';
import styles from './Review.module.css';

const WIDTH = 900; // pixels: sharp on high-density screens
const MIN_BOX_WIDTH = 0.1; // of the page's width, so that a short word is not enlarged too much

export const cropQuery = (documentId: string, page: number, box: Box, width = WIDTH) => {
  // The service adds a margin, and returns the box that it shows.
  const path = `/api/documents/${encodeURIComponent(documentId)}/pages/${page}.png?width=${width}&box=${wide(box).join(',')}`;
  return queryOptions({
    queryKey: ['crop', path],
    queryFn: ({ signal }) => fetchCrop(path, signal),
    staleTime: Infinity,
    gcTime: 60_000,
  });
};

interface Props {
  documentId: string;
  page: number;
  box: Box;
  /** Width of the image in pixels. */
  width?: number;
  /** Don't load it now, as while scrolling. */
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
    <figure className={styles.crop} aria-label={t('document.viewer.excerpt', { page })}>
      {url !== null && (
        <div>
          <img src={url} alt="" />
          <svg viewBox="0 0 1 1" preserveAspectRatio="none" aria-hidden="true">
            <rect x={x0} y={y0} width={x1 - x0} height={y1 - y0} />
          </svg>
        </div>
      )}
      {isError && <p className="muted">{t('document.viewer.excerptFailed')}</p>}
    </figure>
  );
}

function wide([x0, y0, x1, y1]: Box): Box {
  const more = Math.max(0, MIN_BOX_WIDTH - (x1 - x0)) / 2;
  return [Math.max(0, x0 - more), y0, Math.min(1, x1 + more), y1];
}

/** Return a box in coordinates relative to another box. */
function within([x0, y0, x1, y1]: Box, [left, top, right, bottom]: Box): Box {
  return [
    (x0 - left) / (right - left),
    (y0 - top) / (bottom - top),
    (x1 - left) / (right - left),
    (y1 - top) / (bottom - top),
  ];
}
