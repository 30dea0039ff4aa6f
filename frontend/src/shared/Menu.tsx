/** A button that opens a menu. */

import { Menu as Base } from '@base-ui/react/menu';
import type { ReactElement, ReactNode } from 'react';
import styles from './Menu.module.css';
import { Icon } from './Icon';

interface MenuProps {
  /** The button. The menu's props are merged into its own. */
  trigger: ReactElement;
  children: ReactNode;
  align?: 'start' | 'end';
}

export function Menu({ trigger, children, align = 'end' }: MenuProps) {
  return (
    <Base.Root modal={false}>
      <Base.Trigger render={trigger} />
      <Base.Portal>
        <Base.Positioner className={styles.place} align={align} sideOffset={4}>
          <Base.Popup className={styles.popup}>{children}</Base.Popup>
        </Base.Positioner>
      </Base.Portal>
    </Base.Root>
  );
}

interface ItemProps {
  onChoose: () => void;
  disabled?: boolean;
  /** In a menu of alternatives: whether this is the current one. */
  chosen?: boolean;
  children: ReactNode;
}

export function MenuItem({ onChoose, disabled = false, chosen, children }: ItemProps) {
  const icon = chosen !== undefined && <span className={styles.icon}>{chosen && <Icon name="check" />}</span>;
  return (
    <Base.Item
      className={styles.item}
      onClick={onChoose}
      disabled={disabled}
      aria-current={chosen === true ? 'true' : undefined}>
      {icon}
      {children}
    </Base.Item>
  );
}

export function MenuSeparator() {
  return <Base.Separator className={styles.separator} />;
}

export function MenuLabel({ children }: { children: ReactNode }) {
  return <div className={styles.label}>{children}</div>;
}
