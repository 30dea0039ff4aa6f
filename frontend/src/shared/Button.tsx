/** A button. `kind`: the primary action, an ordinary one, or one without a border. */

import type { ComponentPropsWithRef, ReactNode } from 'react';
import styles from './Button.module.css';

interface Props extends ComponentPropsWithRef<'button'> {
  kind?: 'main' | 'plain' | 'quiet';
  danger?: boolean;
  /** The accessible name of a button that shows only an icon. */
  label?: string;
  children?: ReactNode;
}

export function Button({ kind = 'plain', danger = false, label, className, ...others }: Props) {
  const names = [styles.button, kind === 'main' && styles.main, kind === 'quiet' && styles.quiet];
  names.push(label !== undefined && styles.icon, danger && styles.danger, className);
  return (
    <button type="button" aria-label={label} title={label} className={names.filter(Boolean).join(' ')} {...others} />
  );
}
