/** For developers: fill a table with samples, send a file, query with SQL. */

import { useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { Check, CircleHelp, Copy, Database, FlaskConical, SquareTerminal } from 'lucide-react';
import { type ReactNode, useState } from 'react';
import { api } from '../api/client';
import { Button } from '../components/ui/Button';
import { Card } from '../components/ui/Card';
import { cn } from '../components/ui/cn';
import { StatusPill } from '../components/ui/StatusPill';
import { configQuery } from '../session/config';
import { useOrganisation } from '../session/role';
import { isoDay, formatDay, formatNumber } from '../shared/format';
import { t } from '../shared/i18n';
import { serviceAddress } from '../shared/serviceAddress';
import { DropArea } from '../documents/DropArea';
import { useChange } from '../shared/useChange';
import { copyText } from '../shared/copyText';

const DAYS = 90;

/** `isStart`: nothing was read yet, so adding documents comes first. */
export function BuildCards({ isStart }: { isStart: boolean }) {
  return (
    <>
      {isStart && (
        <section aria-labelledby="start" className="grid gap-4">
          <h2 id="start" className="text-lg font-semibold">
            {t('home.build.start')}
          </h2>
          <div className="grid gap-4 lg:grid-cols-[2fr_1fr]">
            <DropArea className="lg:min-h-72" />
            <SamplesCard rows={5} />
          </div>
        </section>
      )}
      <section aria-labelledby="build" className="grid gap-4">
        <h2 id="build" className="text-lg font-semibold">
          {t('home.build.title')}
        </h2>
        <div className={cn('grid gap-4 lg:grid-cols-2', !isStart && 'xl:grid-cols-3')}>
          {!isStart && <SamplesCard rows={3} />}
          <SendCard />
          <PostgresCard />
        </div>
      </section>
    </>
  );
}

const SAMPLES = [
  { shop: 'Pennywise Hardware Ltd', day: '2026-11-24', total: 15.55 },
  { shop: 'Corner Fig Cafe Ltd', day: '2026-05-04', total: 34.6, isUnclear: true },
  { shop: 'Lark & Sons Taxi Ltd', day: '2026-11-04', total: null },
  { shop: 'Tamsin Rowe Books Ltd', day: '2026-11-17', total: 39.9 },
  { shop: 'Bright Water Flowers Ltd', day: '2026-11-20', total: 40.5 },
];

function SamplesCard({ rows }: { rows: number }) {
  const navigate = useNavigate();
  const config = useQuery(configQuery);
  const fill = useChange(
    ['stacks'],
    () => api.post('/api/stacks/samples', { body: { name: t('home.build.samplesName') } }),
    (stack) => navigate({ to: '/tables/$tableId', params: { tableId: stack.id } }),
  );
  return (
    <BuildCard
      icon={<FlaskConical size={16} strokeWidth={1.75} aria-hidden="true" />}
      title={t('home.build.samples')}
      foot={config.data?.offline_model === true ? t('home.build.samplesOffline') : t('home.build.samplesHint')}
      action={
        <Button disabled={fill.isPending} onClick={() => fill.mutate()}>
          {t('home.build.fill')}
        </Button>
      }>
      <div className="rounded-md border border-border">
        <table className="w-full text-sm" aria-label={t('home.build.preview')}>
          <tbody>
            {SAMPLES.slice(0, rows).map((one) => (
              <tr key={one.shop} className="border-b border-line last:border-0">
                <td className="w-full max-w-0 truncate px-2 py-1.5">{one.shop}</td>
                <td className={cn('px-2 py-1.5 whitespace-nowrap', one.isUnclear === true && 'bg-need-bg text-need')}>
                  {one.isUnclear === true && (
                    <CircleHelp size={13} className="mr-1 inline" aria-label={t('home.build.unclear')} />
                  )}
                  {formatDay(one.day)}
                </td>
                <td
                  className={cn(
                    'px-2 py-1.5 text-right whitespace-nowrap',
                    one.total === null && 'bg-need-bg font-medium text-need',
                  )}>
                  {one.total === null
                    ? t('home.fields.missing')
                    : formatNumber(one.total, { minimumFractionDigits: 2 })}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </BuildCard>
  );
}

function SendCard() {
  const organisation = useOrganisation();
  const [key, setKey] = useState<string | null>(null);
  const command = (secret: string) =>
    [
      `curl ${serviceAddress}/api/documents \\`,
      `  -H "Authorization: Bearer ${secret}" \\`,
      '  -F file=@invoice.pdf',
    ].join('\n');
  const create = useChange(
    [['organisation', organisation?.id, 'keys']],
    async () => {
      const name = t('home.build.keyName', { day: formatDay(isoDay(Date.now())) });
      const body = { name, scopes: ['documents:add' as const], expires_in_seconds: DAYS * 86_400 };
      return (await api.post('/api/keys', { body })).key;
    },
    (made) => {
      setKey(made);
      return copyText(command(made));
    },
  );
  return (
    <BuildCard
      icon={<SquareTerminal size={16} strokeWidth={1.75} aria-hidden="true" />}
      title={t('home.build.send')}
      foot={key === null ? t('home.build.sendHint', { days: DAYS }) : t('home.build.keyOnce')}
      action={
        <Button
          icon={Copy}
          disabled={create.isPending}
          onClick={() => (key === null ? create.mutate() : void copyText(command(key)))}>
          {key === null ? t('home.build.copyWithKey') : t('home.build.copy')}
        </Button>
      }>
      <Code label={t('home.build.send')}>{command(key ?? 'fm_…')}</Code>
    </BuildCard>
  );
}

function PostgresCard() {
  const config = useQuery(configQuery);
  return (
    <BuildCard
      icon={<Database size={16} strokeWidth={1.75} aria-hidden="true" />}
      title={t('home.build.postgres')}
      pill={
        config.data !== undefined && (
          <StatusPill tone="ok" icon={Check}>
            {config.data.embedded_database ? t('home.build.builtIn') : t('home.build.own')}
          </StatusPill>
        )
      }
      foot={config.data?.embedded_database === false ? t('home.build.viewHint') : t('home.build.ownHint')}
      action={
        <Button icon={Copy} onClick={() => void copyText(SQL)}>
          {t('home.build.copy')}
        </Button>
      }>
      <Code label={t('home.build.postgres')}>{SQL}</Code>
    </BuildCard>
  );
}

const SQL = [
  'select d.filename, f.path, f.text, f.status',
  'from fields as f',
  'join documents as d on d.id = f.document_id',
  "where f.status in ('found', 'confirmed');",
].join('\n');

interface CardProps {
  icon: ReactNode;
  title: string;
  pill?: ReactNode;
  foot: string;
  action: ReactNode;
  children: ReactNode;
}

function BuildCard({ icon, title, pill, foot, action, children }: CardProps) {
  return (
    <Card
      title={
        <span className="flex items-center gap-2">
          {icon}
          {title}
        </span>
      }
      actions={pill}
      className="flex flex-col">
      <div className="flex-1">{children}</div>
      <div className="mt-3 flex flex-wrap items-center justify-between gap-2">
        <p className="min-w-0 flex-1 text-xs text-muted-foreground">{foot}</p>
        {action}
      </div>
    </Card>
  );
}

function Code({ label, children }: { label: string; children: string }) {
  return (
    <div className="rounded-md border border-border bg-canvas p-3">
      <pre
        role="region"
        aria-label={label}
        tabIndex={0}
        className="max-h-25 overflow-y-auto text-xs leading-5 break-words whitespace-pre-wrap">
        {children}
      </pre>
    </div>
  );
}
