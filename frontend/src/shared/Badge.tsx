/** How something stands, in a word with a sign. */

import type { ReactNode } from 'react';
import styles from './Badge.module.css';
import { Sign, type SignName } from './Sign';

export type Tone = 'plain' | 'good' | 'unsure' | 'bad';

export function Badge({ tone = 'plain', sign, children }: { tone?: Tone; sign?: SignName | undefined; children: ReactNode }) {
  return (
    <span className={`${styles.badge} ${tone === 'plain' ? '' : styles[tone]}`}>
      {sign !== undefined && <Sign name={sign} size={12} />}
      {children}
    </span>
  );
}
