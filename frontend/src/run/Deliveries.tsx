/** What was sent to an address, as rows of two lines, each of which can be sent again. */

import { RotateCcw } from 'lucide-react';
import type { Delivery } from '../api/types';
import { Button } from '../components/ui/Button';
import { StatusPill, type Tone } from '../components/ui/StatusPill';
import en from '../locales/en.json';
import { formatAge, formatTime } from '../shared/format';
import { t } from '../shared/i18n';

type Texts = typeof en.settings.webhooks;
const TONES: Record<Delivery['status'], Tone> = { delivered: 'ok', pending: 'plain', failed: 'bad' };

interface Props {
  items: readonly Delivery[];
  isSending: boolean;
  onAgain: (deliveryId: string) => void;
}

export function Deliveries({ items, isSending, onAgain }: Props) {
  return (
    <ul
      className="divide-y divide-line rounded-lg border border-border bg-card"
      aria-label={t('settings.webhooks.log')}>
      {items.map((one) => (
        <li key={one.id} className="flex items-center gap-3 py-2 pr-2 pl-3">
          <div className="min-w-0 flex-1">
            <p className="truncate font-medium">{changeTypeText(one.type)}</p>
            <p className="text-xs text-muted-foreground" title={formatTime(one.created_at)}>
              {[
                formatAge(one.attempted_at ?? one.created_at),
                t('runs.attempts', { count: one.attempts }),
                [one.http_status ?? '', one.error_code === null ? '' : errorText(one.error_code)].join(' ').trim(),
              ]
                .filter((part) => part !== '')
                .join(' · ')}
            </p>
          </div>
          <StatusPill tone={TONES[one.status]}>{t(`settings.webhooks.deliveries.${one.status}`)}</StatusPill>
          <Button
            kind="quiet"
            icon={RotateCcw}
            label={t('settings.webhooks.again')}
            disabled={isSending}
            onClick={() => onAgain(one.id)}
          />
        </li>
      ))}
    </ul>
  );
}

/** Return the type of a change in words. */
export function changeTypeText(type: string): string {
  const known = type.replace('.', '__');
  const texts: Readonly<Record<string, string>> = en.settings.webhooks.types;
  return Object.hasOwn(texts, known) ? t(`settings.webhooks.types.${known as keyof Texts['types']}`) : type;
}

function errorText(code: string): string {
  const texts: Readonly<Record<string, string>> = en.settings.webhooks.errors;
  return Object.hasOwn(texts, code) ? t(`settings.webhooks.errors.${code as keyof Texts['errors']}`) : code;
}
