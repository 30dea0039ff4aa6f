/** Thumbnails of all pages, for navigation. */

import { useVirtualizer } from '@tanstack/react-virtual';
import { useEffect, useRef } from 'react';
import { t } from '../shared/i18n';
import styles from './PageViewer.module.css';
import { useSmallImage } from './usePageImage';

const ROW = 112;
const WIDTH = 120; // pixels: sharp on high-density screens

interface Props {
  documentId: string;
  pages: number;
  current: number;
  onOpen: (number: number) => void;
}

export function PageRail({ documentId, pages, current, onOpen }: Props) {
  const rail = useRef<HTMLElement>(null);
  const virtual = useVirtualizer({
    count: pages,
    getScrollElement: () => rail.current,
    estimateSize: () => ROW,
    overscan: 1,
  });
  useEffect(() => virtual.scrollToIndex(current - 1, { align: 'auto' }), [current, virtual]);
  return (
    <nav ref={rail} className={styles.rail} aria-label={t('document.viewer.pages')}>
      <div className={styles.railRows} style={{ height: virtual.getTotalSize() }}>
        {virtual.getVirtualItems().map(({ index, start }) => (
          <button
            key={index}
            type="button"
            className={styles.thumb}
            style={{ transform: `translateY(${start}px)` }}
            aria-current={index + 1 === current}
            aria-label={t('common.page', { page: index + 1 })}
            onClick={() => onOpen(index + 1)}>
            <Thumbnail documentId={documentId} number={index + 1} enabled={!virtual.isScrolling} />
            {index + 1}
          </button>
        ))}
      </div>
    </nav>
  );
}

/** Not loaded while scrolling. */
function Thumbnail({ documentId, number, enabled }: { documentId: string; number: number; enabled: boolean }) {
  const { url } = useSmallImage(documentId, number, WIDTH, enabled);
  return url === null ? <span className={styles.blank} /> : <img src={url} alt="" />;
}
