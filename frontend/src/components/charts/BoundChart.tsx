/** A share over weeks with its upper bound, drawn with SVG. The table behind it says the same. */

import { cn } from '../ui/cn';
import { Axes } from './Axes';
import { axisLines } from './scale';

export interface ChartWeek {
  id: string;
  share: number;
  bound: number;
  /** Under the axis: the week, and the number of values. */
  label: string;
  note: string;
  title: string;
}

/** A line across the chart, between two weeks: `at` is from 0 (the first week) to the number of weeks - 1. */
export interface ChartMark {
  id: string;
  at: number;
  label: string;
}

interface Props {
  weeks: readonly ChartWeek[];
  marks: readonly ChartMark[];
  formatValue: (share: number) => string;
}

export function BoundChart({ weeks, marks, formatValue }: Props) {
  const lines = axisLines(Math.min(Math.max(...weeks.map((one) => one.bound), 0.01), 1));
  const top = lines.at(-1)!;
  const left = (at: number) => ((at + 0.5) / weeks.length) * 100;
  const height = (share: number) => 100 - (Math.min(share, top) / top) * 100;
  const points = (values: readonly number[]) => values.map((value, at) => `${left(at)},${height(value)}`);
  const shares = points(weeks.map((one) => one.share));
  const bounds = points(weeks.map((one) => one.bound));
  return (
    <Axes
      lines={lines}
      formatValue={formatValue}
      labels={
        <div className="flex">
          {weeks.map((one) => (
            <span key={one.id} className="min-w-0 flex-1 truncate text-center">
              <span className="block truncate text-foreground">{one.label}</span>
              {one.note}
            </span>
          ))}
        </div>
      }>
      <svg viewBox="0 0 100 100" preserveAspectRatio="none" className="absolute inset-0 size-full overflow-visible">
        <polygon points={[...bounds, ...shares.toReversed()].join(' ')} className="fill-primary/10" />
        <polyline
          points={bounds.join(' ')}
          className="fill-none stroke-primary"
          strokeWidth={1.5}
          strokeDasharray="3 3"
          vectorEffect="non-scaling-stroke"
        />
        <polyline
          points={shares.join(' ')}
          className="fill-none stroke-primary"
          strokeWidth={2}
          vectorEffect="non-scaling-stroke"
        />
      </svg>
      {marks.map((one) => (
        <span
          key={one.id}
          className="absolute inset-y-0 border-l border-dashed border-muted-foreground whitespace-nowrap"
          style={{ left: `${left(one.at)}%` }}>
          <span className={cn('absolute top-0', left(one.at) > 70 ? 'right-1.5' : 'left-1.5')}>{one.label}</span>
        </span>
      ))}
      {weeks.map((one, at) => (
        <span
          key={one.id}
          title={one.title}
          className="absolute size-2.5 -translate-1/2 rounded-full border-2 border-primary bg-background"
          style={{ left: `${left(at)}%`, top: `${height(one.share)}%` }}
        />
      ))}
    </Axes>
  );
}
