/** The frame of a chart: the values at its left, their lines, and what is drawn over them. */

import type { ReactNode } from 'react';

interface Props {
  lines: readonly number[];
  formatValue: (value: number) => string;
  /** Under the axis. */
  labels: ReactNode;
  children: ReactNode;
}

export function Axes({ lines, formatValue, labels, children }: Props) {
  const bottom = (line: number) => `${(line / lines.at(-1)!) * 100}%`;
  return (
    <div aria-hidden="true" className="grid grid-cols-[auto_minmax(0,1fr)] gap-x-2 text-2xs text-muted-foreground">
      <div className="relative my-2 w-11">
        {lines.map((line) => (
          <span
            key={line}
            className="absolute right-0 translate-y-1/2 whitespace-nowrap"
            style={{ bottom: bottom(line) }}>
            {formatValue(line)}
          </span>
        ))}
      </div>
      <div className="relative my-2 h-44">
        {lines.map((line) => (
          <span key={line} className="absolute inset-x-0 border-t border-line" style={{ bottom: bottom(line) }} />
        ))}
        {children}
      </div>
      <span />
      {labels}
    </div>
  );
}
