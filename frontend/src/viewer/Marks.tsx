/** The boxes of values, over the image of a page. Clicks are handled by the page. */

import { memo } from 'react';
import type { Mark } from '../fields/fieldTree';
import styles from './PageViewer.module.css';

/** Pixels around a word, so that the line of a box is not on its letters. */
const AROUND = 1;
const AROUND_CHOSEN = 3;

interface Props {
  marks: readonly Mark[];
  /** Of the page, in pixels. */
  width: number;
  height: number;
  chosen: string | null;
  /** Increases each time a field is selected, so that its box flashes again. */
  flash: number;
}

export const Marks = memo(function Marks({ marks, width, height, chosen, flash }: Props) {
  return (
    <svg className={styles.marks} viewBox={`0 0 ${width} ${height}`} aria-hidden="true">
      {marks.map(({ path, box: [x0, y0, x1, y1], status, number }, index) => {
        const isChosen = path === chosen;
        const around = isChosen || number !== undefined ? AROUND_CHOSEN : AROUND;
        const names = [styles.mark, isChosen ? styles.chosen : number !== undefined && styles.candidate];
        if (status === 'unmapped') names.push(styles.unmapped);
        return (
          <rect
            key={isChosen ? `${index} ${flash}` : index}
            className={names.filter(Boolean).join(' ')}
            data-path={status === 'unmapped' ? undefined : path}
            data-unmapped={status === 'unmapped' ? path : undefined}
            x={x0 * width - around}
            y={y0 * height - around}
            width={(x1 - x0) * width + 2 * around}
            height={(y1 - y0) * height + 2 * around}
            rx={around}
          />
        );
      })}
    </svg>
  );
});

/** Return the smallest box at a point of the page. */
export function markAt(marks: readonly Mark[], x: number, y: number, slack = 0.003): Mark | undefined {
  const area = ({ box: [x0, y0, x1, y1] }: Mark) => (x1 - x0) * (y1 - y0);
  return marks
    .filter(({ box: [x0, y0, x1, y1] }) => x >= x0 - slack && x <= x1 + slack && y >= y0 - slack && y <= y1 + slack)
    .sort((a, b) => area(a) - area(b))[0];
}
