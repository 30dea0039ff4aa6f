/** Columns over a time, drawn with CSS. The table behind it says the same to screen readers and the keyboard. */

import { Link, type LinkProps } from '@tanstack/react-router';
import { cn } from '../ui/cn';
import { Axes } from './Axes';
import { axisLines, labelled } from './scale';

export interface ChartColumn {
  id: string;
  value: number;
  /** Under the axis. */
  label: string;
  /** When pointed at. */
  title: string;
  link?: LinkProps | undefined;
  isStrong?: boolean;
}

interface Props {
  columns: readonly ChartColumn[];
  formatValue: (value: number) => string;
  /** Above the strong column. */
  note?: string | undefined;
  maxLabels?: number;
}

export function ColumnChart({ columns, formatValue, note, maxLabels = 5 }: Props) {
  const lines = axisLines(Math.max(...columns.map((one) => one.value), 0));
  const top = lines.at(-1)!;
  const shown = labelled(columns.length, maxLabels);
  const strong = columns.findIndex((one) => one.isStrong === true);
  const isAtRight = strong > columns.length / 2;
  /** The columns under the note. */
  const width = Math.ceil(columns.length / 3);
  const beside = isAtRight
    ? columns.slice(Math.max(strong - width, 0), strong + 1)
    : columns.slice(strong, strong + width);
  const noteAt = Math.min((Math.max(...beside.map((one) => one.value), 0) / top) * 100, 90);
  return (
    <Axes
      lines={lines}
      formatValue={formatValue}
      labels={
        <div className="relative h-4">
          {columns.map(
            (one, index) =>
              shown.has(index) && (
                <span
                  key={one.id}
                  className="absolute -translate-x-1/2 whitespace-nowrap"
                  style={{ left: `${((index + 0.5) / columns.length) * 100}%` }}>
                  {one.label}
                </span>
              ),
          )}
        </div>
      }>
      <div className="absolute inset-0 flex items-end gap-px sm:gap-0.5">
        {columns.map((one) => (
          <Column key={one.id} column={one} top={top} />
        ))}
      </div>
      {note !== undefined && strong >= 0 && (
        <>
          {/* From the note down to its column, over lower ones. */}
          <span
            className="absolute w-px bg-muted-foreground"
            style={{
              left: `${((strong + 0.5) / columns.length) * 100}%`,
              bottom: `${(columns[strong]!.value / top) * 100}%`,
              height: `${noteAt - (columns[strong]!.value / top) * 100}%`,
            }}
          />
          <span
            className={cn(
              'absolute rounded-xs bg-card px-1 font-medium whitespace-nowrap text-foreground',
              isAtRight && '-translate-x-full',
            )}
            style={{ left: `${((strong + (isAtRight ? 1 : 0)) / columns.length) * 100}%`, bottom: `${noteAt}%` }}>
            {note}
          </span>
        </>
      )}
    </Axes>
  );
}

function Column({ column, top }: { column: ChartColumn; top: number }) {
  const bar = (
    <span
      className={cn(
        'block w-full rounded-t-xs group-hover:bg-primary-hover',
        column.isStrong === true ? 'bg-primary' : 'bg-primary/60',
        column.value > 0 && 'min-h-px',
      )}
      style={{ height: `${(column.value / top) * 100}%` }}
    />
  );
  const className = 'group flex h-full min-w-0 flex-1 items-end';
  if (column.link === undefined) {
    return (
      <span className={className} title={column.title}>
        {bar}
      </span>
    );
  }
  return (
    <Link {...column.link} tabIndex={-1} className={className} title={column.title}>
      {bar}
    </Link>
  );
}
