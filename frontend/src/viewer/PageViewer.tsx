/** The pages of a document, one below the other. Only visible pages are loaded. */

import { useVirtualizer } from '@tanstack/react-virtual';
import { useCallback, useLayoutEffect, useRef, useState } from 'react';
import { Maximize, Minimize, Minus, Plus, ZoomIn } from 'lucide-react';
import { Button } from '../components/ui/Button';
import { formatPercent } from '../shared/format';
import { t } from '../shared/i18n';
import { useShortcut } from '../shared/shortcuts/useShortcut';
import type { Box } from '../api/types';
import type { Mark } from '../fields/fieldTree';
import { PageRail } from './PageRail';
import { PageView } from './PageView';
import styles from './PageViewer.module.css';

const GAP = 12;
const TOOLBAR_HEIGHT = 96; // pixels at the lower edge that the zoom buttons cover, with a margin
const MAX_WIDTH = 720; // pixels of a page at 100 %
const STEPS = [0.5, 0.75, 1, 1.25, 1.5, 2, 3, 4];
const READABLE = 5; // pixels: a line of this height is shown as it is
const CLOSE = 1.5; // the label beside a value is in view, too
const ZOOM_IN = { id: 'page.zoomIn', keys: '+' } as const;
const ZOOM_OUT = { id: 'page.zoomOut', keys: '-' } as const;
const FIT_WIDTH = { id: 'page.fitWidth', keys: '0' } as const;
const NO_MARKS: readonly Mark[] = [];

/** A location to scroll to. `at` increases with each request. */
export interface ScrollTarget {
  page: number;
  box?: Box | undefined;
  at: number;
}

interface Props {
  documentId: string;
  pages: number;
  marks: ReadonlyMap<number, readonly Mark[]>;
  chosen: string | null;
  place: ScrollTarget;
  onChoose: (path: string) => void;
  /** Excerpts beside the page show what is too small on it. */
  hasExcerpts?: boolean;
}

export function PageViewer({ documentId, pages, marks, chosen, place, onChoose, hasExcerpts = false }: Props) {
  const scroller = useRef<HTMLDivElement>(null);
  const [room, setRoom] = useState(0);
  // null: the width fits, but larger once a location was too small to read.
  const [chosenZoom, setZoom] = useState<number | null>(null);
  const [fitted, setFitted] = useState(1);
  const zoom = chosenZoom ?? fitted;
  const [ratios, setRatios] = useState<ReadonlyMap<number, number>>(new Map());
  const fitWidth = Math.min(room - 2 * GAP, MAX_WIDTH);
  const width = Math.max(200, Math.round(fitWidth * zoom));
  const ratioOf = (number: number) => ratios.get(number) ?? ratios.values().next().value ?? Math.SQRT2;
  const { page, box, at } = place;
  const readable = box === undefined || hasExcerpts || room === 0 ? 1 : readableZoom(box, fitWidth * ratioOf(page));
  if (readable > fitted) setFitted(readable);

  useLayoutEffect(() => {
    const element = scroller.current!;
    setRoom(element.clientWidth);
    const observer = new ResizeObserver(() => setRoom(element.clientWidth));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);

  const virtual = useVirtualizer({
    count: pages,
    getScrollElement: () => scroller.current,
    estimateSize: (index) => Math.round(width * ratioOf(index + 1)),
    gap: GAP,
    paddingStart: GAP,
    paddingEnd: GAP * 5,
    overscan: 1,
  });
  useLayoutEffect(() => virtual.measure(), [virtual, width, ratios]);

  const onRatio = useCallback((number: number, ratio: number) => {
    setRatios((known) => (known.get(number) === ratio ? known : new Map(known).set(number, ratio)));
  }, []);

  // Scroll to the requested location, unless it is visible already.
  const landed = useRef({ at: 0, page: 0, top: 0, isFinal: true });
  useLayoutEffect(() => {
    const element = scroller.current;
    const slot = virtual.measurementsCache[page - 1];
    if (element === null || slot === undefined || at === 0 || room === 0) return;
    const last = landed.current;
    // Scroll once per request, and once more when the page's real height is loaded, unless the person has scrolled.
    const isSame = last.at === at && last.page === page;
    if (isSame && last.isFinal) return;
    if (slot.size !== Math.round(width * ratioOf(page))) return; // the virtualiser has not measured this width yet
    const top = slot.start + (box === undefined ? -GAP : box[1] * slot.size);
    const isFinal = ratios.has(page);
    // Nothing moved: reading scroll positions would force a layout.
    if (isSame && last.top === top) {
      last.isFinal = isFinal;
      return;
    }
    const bottom = box === undefined ? top : slot.start + box[3] * slot.size;
    const isSeen =
      box !== undefined &&
      top > element.scrollTop + 40 &&
      bottom < element.scrollTop + element.clientHeight - TOOLBAR_HEIGHT;
    if (!isSeen) element.scrollTo({ top: box === undefined ? top : (top + bottom) / 2 - element.clientHeight / 2 });
    if (box !== undefined && width > element.clientWidth) {
      const [middle, right] = [((box[0] + box[2]) / 2) * width, box[2] * width];
      const isNarrow = (box[2] - box[0]) * width < element.clientWidth / 2;
      element.scrollTo({ left: isNarrow ? right + 48 - element.clientWidth : middle - element.clientWidth / 2 });
    }
    landed.current = { at, page, top, isFinal };
  });
  const stopScrolling = () => {
    landed.current.isFinal = true;
  };

  const open = (number: number) => {
    stopScrolling();
    virtual.scrollToIndex(number - 1, { align: 'start' });
  };
  const zoomTo = (direction: 1 | -1) => {
    const next = direction > 0 ? STEPS.find((step) => step > zoom) : STEPS.findLast((step) => step < zoom);
    if (next !== undefined) setZoom(next);
  };
  useShortcut(ZOOM_IN, () => zoomTo(1));
  useShortcut(ZOOM_OUT, () => zoomTo(-1));
  useShortcut(FIT_WIDTH, () => setZoom(1));

  const items = virtual.getVirtualItems();
  const middle = (virtual.scrollOffset ?? 0) + (scroller.current?.clientHeight ?? 0) / 2;
  const current = (items.findLast((item) => item.start <= middle)?.index ?? 0) + 1;
  return (
    <div className={styles.viewer}>
      {pages > 1 && <PageRail documentId={documentId} pages={pages} current={current} onOpen={open} />}
      <div
        ref={scroller}
        className={styles.scroller}
        tabIndex={0}
        role="region"
        aria-label={t('document.viewer.label')}
        onWheel={stopScrolling}
        onTouchMove={stopScrolling}
        onPointerDown={stopScrolling}
        onKeyDown={stopScrolling}>
        <div className={styles.pages} style={{ height: virtual.getTotalSize(), minWidth: width + 2 * GAP }}>
          {room > 0 &&
            items.map(({ index, start, size }) => (
              <div key={index} className={styles.slot} style={{ transform: `translateY(${start}px)` }}>
                <PageView
                  documentId={documentId}
                  number={index + 1}
                  width={width}
                  height={size}
                  marks={marks.get(index + 1) ?? NO_MARKS}
                  chosen={chosen}
                  flash={at}
                  onChoose={onChoose}
                  onRatio={onRatio}
                />
              </div>
            ))}
        </div>
      </div>
      <div className={styles.zoom} role="toolbar" aria-label={t('document.viewer.zoom')}>
        <Button
          kind="quiet"
          label={t('document.viewer.zoomOut')}
          onClick={() => zoomTo(-1)}
          disabled={zoom <= STEPS[0]!}>
          <Minus size={16} aria-hidden="true" />
        </Button>
        <output aria-label={t('document.viewer.zoom')}>{formatPercent(zoom)}</output>
        <Button
          kind="quiet"
          label={t('document.viewer.zoomIn')}
          onClick={() => zoomTo(1)}
          disabled={zoom >= STEPS.at(-1)!}>
          <Plus size={16} aria-hidden="true" />
        </Button>
        <Button kind="quiet" label={t('document.viewer.fitWidth')} onClick={() => setZoom(1)} disabled={zoom === 1}>
          <Maximize size={16} aria-hidden="true" />
        </Button>
      </div>
      <Button
        className={styles.zoomOnce}
        size="lg"
        label={t(zoom > 1 ? 'document.viewer.fitWidth' : 'document.viewer.zoomIn')}
        onClick={() => setZoom(zoom > 1 ? 1 : 2)}>
        {zoom > 1 ? <Minimize size={18} aria-hidden="true" /> : <ZoomIn size={18} aria-hidden="true" />}
      </Button>
    </div>
  );
}

/** Return the zoom at which the text in a box can be read, on a page that is `height` pixels high at 100 %. */
function readableZoom([, top, , bottom]: Box, height: number): number {
  const pixels = (bottom - top) * height;
  return pixels >= READABLE ? 1 : (STEPS.find((step) => step >= CLOSE && step * pixels >= READABLE) ?? 2);
}
