/** An excerpt of a page: the line of a value, with its label and a box around the value. */

import { queryOptions, useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { fetchCrop } from '../api/client';
import type { Box } from '../api/types';
import { cn } from '../components/ui/cn';
import { t } from '../shared/i18n';
import { useObjectUrl } from '../shared/useObjectUrl';

const WIDTH = 900; // pixels: sharp on high-density screens
const SMALL = 480;
/** Shares of the page's width: of a label before the value, where there is room, and of the least that is shown, so that a
 * short word is not enlarged too much. */
const LABEL = 0.18;
const MIN_WIDTH = { small: 0.14, large: 0.25 };
const PADDING = 0.4; // above and below, of the height of the box: no half of a neighbouring line

export const cropQuery = (documentId: string, page: number, box: Box, width = WIDTH) => {
  // The service adds a margin, and returns the box that it shows.
  const path = `/api/documents/${encodeURIComponent(documentId)}/pages/${page}.png?width=${width}&box=${wide(
    box,
    width <= SMALL,
  )
    .map((edge) => edge.toFixed(5))
    .join(',')}`;
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
  className?: string;
}

export function Crop({ documentId, page, box, width = WIDTH, isPaused = false, className }: Props) {
  const { data, isError } = useQuery({ ...cropQuery(documentId, page, box, width), enabled: !isPaused });
  const url = useObjectUrl(data?.blob);
  const [ratio, setRatio] = useState<number | null>(null);
  const [x0, y0, x1, y1] = within(box, data?.box ?? box);
  const top = Math.max(0, y0 - PADDING * (y1 - y0));
  const height = Math.min(1, y1 + PADDING * (y1 - y0)) - top;
  return (
    <figure
      className={cn(
        'm-0 flex min-h-6 items-center overflow-hidden rounded-sm border border-border bg-white',
        className,
      )}
      aria-label={t('document.viewer.excerpt', { page })}>
      {url !== null && (
        <div
          className="w-full overflow-hidden"
          style={ratio === null ? { height: 0 } : { aspectRatio: 1 / (ratio * Math.max(height, 0.01)) }}>
          <div className="relative" style={{ marginTop: `${-100 * top * (ratio ?? 0)}%` }}>
            <img
              src={url}
              alt=""
              className="block w-full"
              onLoad={({ currentTarget: { naturalHeight, naturalWidth } }) => setRatio(naturalHeight / naturalWidth)}
            />
            {width > SMALL && (
              <svg
                viewBox="0 0 1 1"
                preserveAspectRatio="none"
                aria-hidden="true"
                className="absolute inset-0 size-full mix-blend-multiply">
                <rect
                  x={x0}
                  y={y0}
                  width={x1 - x0}
                  height={y1 - y0}
                  className="fill-box/10 stroke-box stroke-2 [vector-effect:non-scaling-stroke]"
                />
              </svg>
            )}
          </div>
        </div>
      )}
      {isError && <p className="p-2 text-[#4c5462]">{t('document.viewer.excerptFailed')}</p>}
    </figure>
  );
}

function wide([x0, y0, x1, y1]: Box, isSmall: boolean): Box {
  const more = Math.max(0, MIN_WIDTH[isSmall ? 'small' : 'large'] - (x1 - x0));
  const left = Math.max(0, isSmall ? x0 - more / 2 : x0 - LABEL);
  return [left, y0, Math.min(1, Math.max(x1, isSmall ? x1 + more / 2 : left + MIN_WIDTH.large)), y1];
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
