/** What audits prove about the values of a table that no one looked at, and the goal. */

import { Link } from '@tanstack/react-router';
import { CircleDashed, ShieldCheck } from 'lucide-react';
import { api } from '../api/client';
import type { TableQuality } from '../api/types';
import { BoundChart } from '../components/charts/BoundChart';
import { Select } from '../components/ui/Select';
import { useCanWrite } from '../session/role';
import { usePersonName } from '../session/people';
import { useChange } from '../shared/useChange';
import { formatNumber, formatShare, formatShortDay, visibleText } from '../shared/format';
import { GOALS, goalLabel } from '../shared/goals';
import { t } from '../shared/i18n';
import { CountButton } from './CountButton';
import { Method } from './Method';

const OF_ORGANISATION = 'organisation';

export function ReviewClaim({ schemaId, data }: { schemaId: string; data: TableQuality }) {
  const { claim, often_corrected: oftenCorrected } = data.review;
  const personName = usePersonName();
  const isProven = claim.at_most !== null && claim.at_most <= claim.max_error && claim.max_error < 1;
  const Sign = isProven ? ShieldCheck : CircleDashed;
  const titles = new Map(data.columns.map((one) => [one.path, one.title ?? one.path]));
  return (
    <section aria-labelledby="claim" className="grid gap-1.5 rounded-lg border border-border bg-card p-4">
      <div className="flex flex-wrap items-center gap-x-3 gap-y-1">
        <Sign size={16} className={isProven ? 'text-ok' : 'text-muted-foreground'} aria-hidden="true" />
        <h2 id="claim" className="flex-1 text-sm font-semibold">
          {t('quality.claim.title')}
        </h2>
        <Goal schemaId={schemaId} data={data} />
      </div>
      <p>{claimText(claim)}</p>
      {claim.at_most !== null && claim.uncovered_values > 0 && (
        <p className="text-need">
          {t('quality.claim.uncovered', {
            values: formatNumber(claim.uncovered_values),
            count: claim.uncovered_layouts,
          })}
        </p>
      )}
      {claim.needed !== null && !isProven && (
        <p className="text-muted-foreground">
          {t('quality.claim.needed', {
            audited: formatNumber(claim.audited),
            needed: formatNumber(claim.needed),
            goal: goalLabel(claim.max_error),
          })}
        </p>
      )}
      <ClaimCounts claim={claim} />
      <ClaimWeeks weeks={data.review.weeks} />
      {claim.waiting > 0 && (
        <p>
          <Link to="/inbox" search={{ kind: 'value', schema: schemaId }} className="text-link underline">
            {t('quality.claim.waiting', { count: claim.waiting })}
          </Link>
        </p>
      )}
      {data.work.hasty.length > 0 && (
        <p className="text-need">
          {t('quality.claim.short', { people: data.work.hasty.map((id) => personName(id)).join(', ') })}
        </p>
      )}
      <Method>
        {data.review.model === null
          ? t('quality.claim.unread')
          : t('quality.claim.scope', {
              model: visibleText(data.review.model),
              confidence: formatNumber(data.review.min_confidence, { style: 'percent' }),
            })}
        {oftenCorrected.length > 0 &&
          ` ${t('quality.claim.often', {
            fields: oftenCorrected.map((path) => visibleText(titles.get(path) ?? path)).join(', '),
          })}`}
      </Method>
    </section>
  );
}

const COUNTS = ['accepted', 'audited', 'wrong', 'waiting'] as const;

/** The values behind each number of the claim. */
function ClaimCounts({ claim }: { claim: TableQuality['review']['claim'] }) {
  const counts = { ...claim, accepted: claim.values };
  return (
    <p className="flex flex-wrap gap-x-4 text-xs">
      {COUNTS.filter((show) => counts[show] > 0).map((show) => (
        <CountButton key={show} show={show} count={counts[show]}>
          {t(`quality.shown.${show}`)} {formatNumber(counts[show])}
        </CountButton>
      ))}
    </p>
  );
}

/** The claim over time: after each week with audits the share that was wrong, and its bound. */
function ClaimWeeks({ weeks }: { weeks: TableQuality['review']['weeks'] }) {
  if (weeks.length < 2) return null;
  const shown = weeks.map(({ monday, audited, wrong, at_most: atMost }) => ({
    id: monday,
    share: wrong / audited,
    bound: atMost ?? 1,
    label: formatShortDay(monday),
    note: `${t('quality.n')} ${formatNumber(audited)}`,
    title: t('quality.claim.week', {
      audited: formatNumber(audited),
      wrong: formatNumber(wrong),
      bound: formatShare(atMost ?? 1),
    }),
  }));
  return (
    <figure className="mt-2 grid gap-1">
      <figcaption className="text-xs text-muted-foreground">{t('quality.claim.overTime')}</figcaption>
      <ul className="sr-only">
        {shown.map(({ id, label, title }) => (
          <li key={id}>{`${label}: ${title}`}</li>
        ))}
      </ul>
      <BoundChart weeks={shown} marks={[]} formatValue={formatShare} />
    </figure>
  );
}

function claimText({
  values,
  audited,
  wrong,
  at_most: atMost,
  max_error: goal,
}: TableQuality['review']['claim']): string {
  if (goal >= 1) return t('quality.claim.noGoal');
  if (atMost === null) return t('quality.claim.unaudited', { count: values });
  return t('quality.claim.bound', {
    count: values,
    audited: formatNumber(audited),
    wrong: formatNumber(wrong),
    bound: formatNumber(atMost, { style: 'percent', maximumFractionDigits: 2 }),
  });
}

/** The goal of the table: its own, or the organisation's. */
function Goal({ schemaId, data }: { schemaId: string; data: TableQuality }) {
  const canWrite = useCanWrite();
  const change = useChange([['overview', 'quality', schemaId]], (goal: number | null) =>
    api.put('/api/schemas/{schema_id}/max_error', { path: { schema_id: schemaId }, body: { max_error: goal } }),
  );
  const own = change.isPending ? change.variables : data.review.own_max_error;
  const goals = [...new Set([...GOALS, ...(own === null ? [] : [own])])];
  return (
    <Select
      kind="quiet"
      label={t('quality.claim.goal')}
      value={own === null ? OF_ORGANISATION : String(own)}
      disabled={!canWrite || change.isPending}
      options={[
        {
          value: OF_ORGANISATION,
          label:
            own === null
              ? t('quality.claim.inherited', { goal: goalLabel(data.review.claim.max_error) })
              : t('quality.claim.inherit'),
        },
        ...goals.map((goal) => ({ value: String(goal), label: goalLabel(goal) })),
      ]}
      onChange={(goal) => change.mutate(goal === OF_ORGANISATION ? null : Number(goal))}
    />
  );
}
