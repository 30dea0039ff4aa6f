/** A status: a word with an icon. */

import type { ReactNode } from 'react';
import styles from './Badge.module.css';
import { Icon, type IconName } from './Icon';

export type Tone = 'plain' | 'good' | 'unsure' | 'bad';

export function Badge({
  tone = 'plain',
  icon,
  children,
}: {
  tone?: Tone;
  icon?: IconName | undefined;
  children: ReactNode;
}) {
  return (
    <span className={`${styles.badge} ${tone === 'plain' ? '' : styles[tone]}`}>
      {icon !== undefined && <Icon name={icon} size={12} />}
      {children}
    </span>
  );
}
