/** ‹ November 2026 ›, and whether a step is a week, a month or a quarter. */

import { ChevronLeft, ChevronRight } from 'lucide-react';
import { Button } from '../components/ui/Button';
import { Tabs } from '../components/ui/Tabs';
import { t } from '../shared/i18n';
import { useUpdateSearch } from '../shared/useUpdateSearch';
import { neighbour, type Period, periodName, periodOf, periodView, type PeriodView, SPANS, today } from './period';

export function PeriodPicker({ period, as: Name = 'h2' }: { period: Period; as?: 'h2' | 'p' }) {
  const updateSearch = useUpdateSearch<PeriodView>();
  const show = (to: Period) => {
    const { span, day } = periodView(to);
    updateSearch((search) => ({ ...search, span, day }));
  };
  const isLast = period.until >= today();
  return (
    <div className="flex flex-wrap items-center gap-x-4 gap-y-2">
      <div className="flex items-center gap-1">
        <Button
          kind="quiet"
          icon={ChevronLeft}
          label={t(`period.previous.${period.span}`)}
          onClick={() => show(neighbour(period, -1))}
        />
        <Name className="min-w-32 text-center text-lg font-semibold" aria-live="polite">
          {periodName(period)}
        </Name>
        <Button
          kind="quiet"
          icon={ChevronRight}
          label={t(`period.next.${period.span}`)}
          disabled={isLast}
          onClick={() => show(neighbour(period, 1))}
        />
      </div>
      <Tabs
        kind="segments"
        label={t('period.span')}
        value={period.span}
        tabs={SPANS.map((span) => ({ value: span, label: t(`period.${span}`) }))}
        onChange={(span) => show(periodOf({ span, day: isLast ? today() : period.since }))}
      />
    </div>
  );
}
