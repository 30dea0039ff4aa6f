/** An excerpt of a page: the line of a value, with its label and a box around the value. */

import { queryOptions, useQuery } from '@tanstack/react-query';
import { useEffect, useRef, useState } from 'react';
import { fetchCrop } from '../api/client';
import type { Box, Word } from '../api/types';
import { cn } from '../components/ui/cn';
import { pageQuery } from '../fields/extractionQueries';
import { t } from '../shared/i18n';
import { useObjectUrl } from '../shared/useObjectUrl';

const WIDTH = 900; // pixels: sharp on high-density screens
const SMALL = 480;
const MAX_VALUE = 0.5; // share of the page's width
/** Width of a value with its label, in heights of the line: wider, and the text would be too small to read. */
const MAX_WIDTH = { small: 13, large: 35 };
const PADDING = 0.25; // above and below, of the height of the box: no half of a neighbouring line
const SPACE = 0.015; // between words of the same text, of the page's width
const GAP = 0.004; // beside the words, of the page's width

const cropQuery = (documentId: string, page: number, box: Box, width: number) => {
  // The service adds a margin, and returns the box that it shows.
  const edges = box.map((edge) => edge.toFixed(5)).join(',');
  const path = `/api/documents/${encodeURIComponent(documentId)}/pages/${page}.png?width=${width}&box=${edges}`;
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
  className?: string;
}

export function Crop({ documentId, page, box, width = WIDTH, className }: Props) {
  const size = width <= SMALL ? 'small' : 'large';
  const figure = useRef<HTMLElement>(null);
  const [wasInView, setInView] = useState(false);
  useEffect(() => {
    const observer = new IntersectionObserver(
      (entries) => entries.some((one) => one.isIntersecting) && setInView(true),
    );
    observer.observe(figure.current!);
    return () => observer.disconnect();
  }, []);
  const { data: words, isError: hasNoPage } = useQuery({ ...pageQuery(documentId, page), enabled: wasInView });
  const lineHeight = ((box[3] - box[1]) * (words?.height ?? 1)) / (words?.width ?? 1);
  const shown = excerpt(box, words?.words ?? [], MAX_WIDTH[size] * lineHeight);
  const query = cropQuery(documentId, page, shown, width);
  const { data, isError } = useQuery({ ...query, enabled: words !== undefined });
  const url = useObjectUrl(data?.blob);
  const onPage = rectangle(words ?? { width: 1, height: 1 });
  const part = onPage(shown, PADDING * (shown[3] - shown[1]));
  return (
    <figure
      ref={figure}
      className={cn(
        'm-0 overflow-hidden rounded-sm border border-border',
        url === null ? 'bg-card' : 'bg-white',
        size === 'small' ? 'h-7 px-1 py-0.5' : 'h-11 p-2.5',
        className,
      )}
      aria-busy={url === null && !isError && !hasNoPage}
      aria-label={t('document.viewer.excerpt', { page })}>
      {url !== null && (
        <svg
          className="block size-full"
          viewBox={`${part.x} ${part.y} ${part.width} ${part.height}`}
          preserveAspectRatio="xMinYMid"
          aria-hidden="true">
          <svg {...part} viewBox={`${part.x} ${part.y} ${part.width} ${part.height}`}>
            <image href={url} preserveAspectRatio="none" {...onPage(data?.box ?? shown)} />
            {size === 'large' && (
              <rect
                {...onPage(box)}
                className="fill-box/10 stroke-box stroke-2 mix-blend-multiply [vector-effect:non-scaling-stroke]"
              />
            )}
          </svg>
        </svg>
      )}
      {(isError || hasNoPage) && <p className="text-muted-foreground">{t('document.viewer.excerptFailed')}</p>}
    </figure>
  );
}

/** Return what is shown of a value's line: the value and the text before it, as its label, of which each part is whole. */
export function excerpt(
  [x0, y0, x1, y1]: Box,
  words: readonly Pick<Word, 'x0' | 'y0' | 'x1' | 'y1'>[],
  most: number,
): Box {
  const line = words.filter((one) => (one.y0 + one.y1) / 2 > y0 && (one.y0 + one.y1) / 2 < y1);
  const value = line.filter((one) => one.x1 > x0 && one.x1 <= x0 + MAX_VALUE);
  const end =
    x1 <= x0 + MAX_VALUE || value.length === 0 ? Math.min(x1, x0 + MAX_VALUE) : Math.max(...value.map((one) => one.x1));
  const starts = line
    .filter((one) => one.x1 <= x0 + GAP && end - one.x0 <= most)
    .map((one) => one.x0)
    .filter((at) => !line.some((other) => other.x0 < at && at - other.x1 < SPACE));
  return [Math.max(Math.min(x0, ...starts) - GAP, 0), y0, Math.min(end + GAP, 1), y1];
}

/** Return boxes in the units of a page, with `more` above and below. */
function rectangle({ width, height }: { width: number; height: number }) {
  return ([x0, y0, x1, y1]: Box, more = 0) => ({
    x: x0 * width,
    y: (y0 - more) * height,
    width: (x1 - x0) * width,
    height: (y1 - y0 + 2 * more) * height,
  });
}
