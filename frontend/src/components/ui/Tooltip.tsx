/** The name of a control that shows only an icon, with its keys. It adds nothing that the control's own name lacks. */

import { Tooltip as Base } from '@base-ui/react/tooltip';
import type { ReactElement } from 'react';
import { Kbd } from './Kbd';

interface Props {
  text: string;
  keys?: string | undefined;
  side?: 'top' | 'right' | 'bottom' | 'left';
  trigger: ReactElement<Record<string, unknown>>;
}

export function Tooltip({ text, keys, side = 'top', trigger }: Props) {
  return (
    <Base.Root>
      <Base.Trigger render={trigger} delay={400} />
      <Base.Portal>
        <Base.Positioner side={side} sideOffset={6} className="z-60">
          <Base.Popup className="flex items-center gap-2 rounded-md bg-foreground px-2 py-1 text-xs text-background shadow-md">
            {text}
            {keys !== undefined && <Kbd>{keys}</Kbd>}
          </Base.Popup>
        </Base.Positioner>
      </Base.Portal>
    </Base.Root>
  );
}
