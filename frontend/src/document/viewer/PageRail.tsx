/** Small pictures of all pages: where one is, and a way to any other. */

import { useVirtualizer } from '@tanstack/react-virtual';
import { useEffect, useRef } from 'react';
import styles from './PageViewer.module.css';
import { useSmallImage } from './usePageImage';

const ROW = 112;
const WIDTH = 120; // pixels: sharp on a screen with two for one

interface Props {
  documentId: string;
  pages: number;
  current: number;
  onOpen: (number: number) => void;
}

export function PageRail({ documentId, pages, current, onOpen }: Props) {
  const rail = useRef<HTMLElement>(null);
  const virtual = useVirtualizer({ count: pages, getScrollElement: () => rail.current, estimateSize: () => ROW, overscan: 1 });
  useEffect(() => virtual.scrollToIndex(current - 1, { align: 'auto' }), [current, virtual]);
  return (
    <nav ref={rail} className={styles.rail} aria-label="Pages">
      <div className={styles.railRows} style={{ height: virtual.getTotalSize() }}>
        {virtual.getVirtualItems().map(({ index, start }) => (
          <button
            key={index}
            type="button"
            className={styles.thumb}
            style={{ transform: `translateY(${start}px)` }}
            aria-current={index + 1 === current}
            aria-label={`Page ${index + 1}`}
            onClick={() => onOpen(index + 1)}
          >
            <Picture documentId={documentId} number={index + 1} wanted={!virtual.isScrolling} />
            {index + 1}
          </button>
        ))}
      </div>
    </nav>
  );
}

/** Those that only pass by are not asked for. */
function Picture({ documentId, number, wanted }: { documentId: string; number: number; wanted: boolean }) {
  const { url } = useSmallImage(documentId, number, WIDTH, wanted);
  return url === null ? <span className={styles.blank} /> : <img src={url} alt="" />;
}
