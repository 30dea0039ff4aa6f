/** One page: its image, an invisible text layer, and the boxes of values. */

import { useQuery } from '@tanstack/react-query';
import { useEffect, useState, type MouseEvent } from 'react';
import type { Box } from '../api/types';
import { cn } from '../components/ui/cn';
import { pageQuery } from '../fields/extractionQueries';
import type { Mark } from '../fields/fieldTree';
import { Marks, markAt } from './Marks';
import { t } from '../shared/i18n';
import styles from './PageViewer.module.css';
import { useActivePicker } from './picking';
import { TextLayer } from './TextLayer';
import { usePageImage } from './usePageImage';
import { useRectangle } from './useRectangle';

interface Props {
  documentId: string;
  number: number;
  width: number;
  height: number;
  marks: readonly Mark[];
  chosen: string | null;
  flash: number;
  onChoose: (path: string) => void;
  /** Called with the page's height divided by its width, once known. */
  onRatio: (number: number, ratio: number) => void;
}

export function PageView({ documentId, number, width, height, marks, chosen, flash, onChoose, onRatio }: Props) {
  const { url, failed } = usePageImage(documentId, number);
  const [isDrawn, setDrawn] = useState(false);
  const page = useQuery(pageQuery(documentId, number));
  const ratio = page.data === undefined ? null : page.data.height / page.data.width;
  useEffect(() => {
    if (ratio !== null) onRatio(number, ratio);
  }, [number, ratio, onRatio]);

  const pick = useActivePicker();
  const words = page.data?.words;
  const rectangle = useRectangle(
    pick &&
      (([x0, y0, x1, y1], event) => {
        const inside = words?.filter(
          (one) => between(x0, (one.x0 + one.x1) / 2, x1) && between(y0, (one.y0 + one.y1) / 2, y1),
        );
        if (inside !== undefined && inside.length > 0) pick(inside.map((one) => one.text).join(' '), event.shiftKey);
      }),
  );

  function click(event: MouseEvent<HTMLElement>) {
    if (rectangle.hasDrawn() || !(getSelection()?.isCollapsed ?? true)) return; // or text was selected
    const { left, top } = event.currentTarget.getBoundingClientRect();
    const [x, y] = [(event.clientX - left) / width, (event.clientY - top) / height];
    const word = pick && words?.find((one) => between(one.x0, x, one.x1) && between(one.y0, y, one.y1));
    const mark = word == null && markAt(marks, x, y);
    if (word != null) pick?.(word.text, event.shiftKey);
    else if (mark) onChoose(mark.path);
  }

  // One answer needs no number.
  const isNumbered = new Set(marks.map(({ number: answer }) => answer).filter((one) => one !== undefined)).size > 1;
  return (
    <section
      className={styles.page}
      style={{ width, height }}
      aria-label={t('common.page', { page: number })}
      data-page={number}
      data-takes={pick !== null || undefined}
      onClick={click}
      {...rectangle.on}>
      {url !== null && (
        <img
          src={url}
          alt=""
          width={width}
          height={height}
          draggable={false}
          decoding="async"
          onLoad={() => setDrawn(true)}
        />
      )}
      {page.data?.engine === 'xml' && <p className={styles.machine}>{t('document.viewer.embedded')}</p>}
      {failed && <p className={styles.failed}>{t('document.viewer.imageFailed')}</p>}
      {page.data !== undefined && <TextLayer page={page.data} width={width} height={height} />}
      {rectangle.box !== null && <Drawn box={rectangle.box} />}
      {(isDrawn || failed) && (
        <>
          <Marks marks={marks} width={width} height={height} chosen={chosen} flash={flash} />
          {marks.map(
            ({ path, box: [x0, y0, , y1], number: answer }) =>
              answer !== undefined &&
              isNumbered && (
                <span
                  key={path}
                  aria-hidden="true"
                  className={cn(
                    'pointer-events-none absolute z-1 flex size-5 -translate-x-[130%] -translate-y-1/2 items-center justify-center rounded-sm text-2xs font-semibold text-white',
                    path === chosen ? 'bg-box' : 'bg-box-candidate',
                  )}
                  style={{ left: `${x0 * 100}%`, top: `${((y0 + y1) / 2) * 100}%` }}>
                  {answer}
                </span>
              ),
          )}
        </>
      )}
    </section>
  );
}

function Drawn({ box: [x0, y0, x1, y1] }: { box: Box }) {
  return (
    <div
      className={styles.drawn}
      style={{ left: `${x0 * 100}%`, top: `${y0 * 100}%`, width: `${(x1 - x0) * 100}%`, height: `${(y1 - y0) * 100}%` }}
    />
  );
}

function between(least: number, value: number, most: number): boolean {
  return value >= least && value <= most;
}
