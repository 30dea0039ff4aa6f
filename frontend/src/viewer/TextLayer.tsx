/** The words of a page, invisible over its image: for selection, search and screen readers. */

import { memo } from 'react';
import type { PageWithWords } from '../api/types';
import { linesOf, widthOf } from './textLayer';
import styles from './PageViewer.module.css';

interface Props {
  page: PageWithWords;
  /** Pixels. */
  width: number;
  height: number;
}

export const TextLayer = memo(function TextLayer({ page, width, height }: Props) {
  return (
    <div className={styles.text}>
      {linesOf(page.words).map((line, index) => (
        <div key={index} className={styles.line}>
          {line.map((word, at) => {
            const size = Math.max(1, (word.y1 - word.y0) * height);
            const natural = widthOf(word.text) * size;
            const stretch = natural > 0 ? ((word.x1 - word.x0) * width) / natural : 1;
            const style = {
              left: word.x0 * width,
              top: word.y0 * height,
              fontSize: size,
              lineHeight: `${size}px`,
              transform: `scaleX(${stretch})`,
            };
            return (
              <span key={at} style={style}>
                {`${word.text} `}
              </span>
            );
          })}
        </div>
      ))}
    </div>
  );
});
