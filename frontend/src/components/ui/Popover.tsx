/** A small panel that opens at a control. */

import { Popover as Base } from '@base-ui/react/popover';
import type { ReactElement, ReactNode } from 'react';
import { cn } from './cn';
import { popupClass } from './popup';

interface Props {
  trigger: ReactElement<Record<string, unknown>>;
  title?: string;
  align?: 'start' | 'center' | 'end';
  side?: 'top' | 'right' | 'bottom' | 'left';
  open?: boolean;
  onOpenChange?: (open: boolean) => void;
  className?: string;
  children: ReactNode;
}

export function Popover({ trigger, title, align = 'start', side = 'bottom', className, children, ...state }: Props) {
  return (
    <Base.Root {...state}>
      <Base.Trigger render={trigger} />
      <Base.Portal>
        <Base.Positioner align={align} side={side} sideOffset={4} collisionPadding={8} className="z-50">
          <Base.Popup className={cn(popupClass, 'max-h-(--available-height) overflow-y-auto p-3', className)}>
            {title !== undefined && <Base.Title className="mb-2 text-sm font-semibold">{title}</Base.Title>}
            {children}
          </Base.Popup>
        </Base.Positioner>
      </Base.Portal>
    </Base.Root>
  );
}
