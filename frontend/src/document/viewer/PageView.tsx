/** One page: its picture, its words unseen over it, the boxes of its values. */

import { useQuery } from '@tanstack/react-query';
import { useEffect, type MouseEvent } from 'react';
import { pageQuery } from '../documentPageQueries';
import type { Mark } from '../fields/fieldTree';
import { Marks, markAt } from './Marks';
import styles from './PageViewer.module.css';
import { TextLayer } from './TextLayer';
import { usePageImage } from './usePageImage';

interface Props {
  documentId: string;
  number: number;
  width: number;
  height: number;
  marks: readonly Mark[];
  chosen: string | null;
  flash: number;
  onChoose: (path: string) => void;
  /** A word was clicked; with Shift it is one more. */
  onWord?: ((text: string, isMore: boolean) => void) | undefined;
  /** How high the page is in parts of its width, as soon as that is known. */
  onRatio: (number: number, ratio: number) => void;
}

export function PageView({ documentId, number, width, height, marks, chosen, flash, onChoose, onWord, onRatio }: Props) {
  const { url, failed } = usePageImage(documentId, number);
  const page = useQuery(pageQuery(documentId, number));
  const ratio = page.data === undefined ? null : page.data.height / page.data.width;
  useEffect(() => {
    if (ratio !== null) onRatio(number, ratio);
  }, [number, ratio, onRatio]);

  function click(event: MouseEvent<HTMLElement>) {
    if (!(getSelection()?.isCollapsed ?? true)) return; // text was being marked
    const { left, top } = event.currentTarget.getBoundingClientRect();
    const [x, y] = [(event.clientX - left) / width, (event.clientY - top) / height];
    const mark = markAt(marks, x, y);
    if (mark !== undefined) onChoose(mark.path);
    const word = onWord && page.data?.words.find((one) => x >= one.x0 && x <= one.x1 && y >= one.y0 && y <= one.y1);
    if (word !== undefined) onWord?.(word.text, event.shiftKey);
  }

  return (
    <section className={styles.page} style={{ width, height }} aria-label={`Page ${number}`} data-page={number} onClick={click}>
      {url !== null && <img src={url} alt="" width={width} height={height} draggable={false} decoding="async" />}
      {failed && <p className={styles.failed}>The picture of this page could not be made.</p>}
      {page.data !== undefined && <TextLayer page={page.data} width={width} height={height} />}
      <Marks marks={marks} chosen={chosen} flash={flash} />
    </section>
  );
}
