/** Webhooks: where changes are sent, with a secret that is shown once; what was sent, and again. */

import { useQuery } from '@tanstack/react-query';
import { KeyRound, ListChecks, Power, Send } from 'lucide-react';
import { useState } from 'react';
import { api } from '../api/client';
import type { ChangeType, Webhook } from '../api/types';
import { Form } from '../components/ui/Form';
import { Checkbox } from '../components/ui/Checkbox';
import { Dialog, DialogActions } from '../components/ui/Dialog';
import { Field } from '../components/ui/Field';
import { Input } from '../components/ui/Input';
import { Loading } from '../components/ui/Loading';
import { MenuItem } from '../components/ui/Menu';
import { ErrorNotice } from '../components/ui/Notice';
import { Select } from '../components/ui/Select';
import { StatusPill } from '../components/ui/StatusPill';
import { Td, Th, Tr } from '../components/ui/Table';
import { toast } from '../components/ui/Toast';
import en from '../locales/en.json';
import { formatAge, visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { changeTypeText, Deliveries } from '../run/Deliveries';
import { AddSecret, OneTimeSecret } from './OneTimeSecret';
import { deliveriesQuery, webhooksQuery } from './settingsQueries';
import { RowMenu } from './RowMenu';
import { SettingsList } from './SettingsTable';
import { useChange } from '../shared/useChange';

type Known = keyof typeof en.settings.webhooks.types;
const TYPES = Object.keys(en.settings.webhooks.types) as Known[];
/** The keys of a catalogue have no dots. */
const typeOf = (known: Known) => known.replace('__', '.') as ChangeType;
const TOUCHES = ['webhooks'] as const;

export function Webhooks() {
  const listed = useQuery(webhooksQuery);
  const [shown, setShown] = useState<Webhook | null>(null);
  return (
    <>
      <SettingsList
        label={t('settings.sections.webhooks')}
        hint={t('settings.webhooks.hint')}
        add={
          <AddSecret
            title={t('settings.webhooks.create')}
            hint={t('settings.webhooks.secretHint')}
            label={t('settings.webhooks.secret')}
            form={(onMade, onClose) => <NewWebhook onMade={onMade} onClose={onClose} />}
          />
        }
        list={listed}
        empty={<Example />}
        heads={
          <>
            <Th>{t('settings.webhooks.url')}</Th>
            <Th className="max-lg:hidden">{t('settings.webhooks.events')}</Th>
            <Th className="max-sm:hidden">{t('settings.invitations.status')}</Th>
          </>
        }
        row={(one) => <WebhookRow key={one.id} webhook={one} onLog={() => setShown(one)} />}
      />
      {shown !== null && <Log webhook={shown} onClose={() => setShown(null)} />}
    </>
  );
}

const EXAMPLE = `POST https://example.com/fieldmark
webhook-id: 01997b…
webhook-signature: v1,K5oZfz…

{"id": "01997b…", "type": "extraction.reviewed", "timestamp": "2026-11-27T08:00:00Z",
 "data": {"document_id": "…", "extraction_id": "…", "extraction": {"fields": {"total": 10.0}, …}}}`;

function Example() {
  return (
    <div className="grid gap-2">
      <p>{t('settings.webhooks.none')}</p>
      <pre
        role="region"
        aria-label={t('settings.webhooks.event')}
        tabIndex={0}
        className="overflow-x-auto rounded-md border border-border bg-canvas p-3 text-xs leading-5">
        {EXAMPLE}
      </pre>
    </div>
  );
}

interface NewProps {
  onMade: (made: { secret: string }) => void;
  onClose: () => void;
}

function NewWebhook({ onMade, onClose }: NewProps) {
  const [url, setUrl] = useState('');
  const [isAll, setAll] = useState(true);
  const [chosen, setChosen] = useState<readonly Known[]>(['extraction__completed', 'extraction__reviewed']);
  const create = useChange(TOUCHES, async () => {
    const body = { url: url.trim(), types: isAll ? [] : chosen.map(typeOf) };
    onMade(await api.post('/api/webhooks', { body }));
  });
  return (
    <Form className="grid gap-3" onSubmit={() => create.mutate()}>
      <Field label={t('settings.webhooks.url')}>
        <Input
          type="url"
          value={url}
          maxLength={2000}
          placeholder={t('settings.webhooks.urlPlaceholder')}
          onValueChange={setUrl}
        />
      </Field>
      <Field label={t('settings.webhooks.events')}>
        <Select
          value={isAll ? 'all' : 'some'}
          options={(['all', 'some'] as const).map((value) => ({ value, label: t(`settings.webhooks.${value}`) }))}
          onChange={(next) => setAll(next === 'all')}
        />
      </Field>
      {!isAll && (
        <fieldset className="grid gap-x-4 sm:grid-cols-2">
          <legend className="sr-only">{t('settings.webhooks.events')}</legend>
          {TYPES.map((one) => (
            <Checkbox
              key={one}
              checked={chosen.includes(one)}
              onChange={(isOn) => setChosen(TYPES.filter((other) => (other === one ? isOn : chosen.includes(other))))}>
              {t(`settings.webhooks.types.${one}`)}
            </Checkbox>
          ))}
        </fieldset>
      )}
      <DialogActions
        label={t('settings.webhooks.create')}
        disabled={create.isPending || url.trim() === '' || (!isAll && chosen.length === 0)}
        onClose={onClose}
      />
    </Form>
  );
}

function WebhookRow({ webhook, onLog }: { webhook: Webhook; onLog: () => void }) {
  const [secret, setSecret] = useState<string | null>(null);
  const params = { path: { webhook_id: webhook.id } };
  const test = useChange(TOUCHES, async () => {
    await api.post('/api/webhooks/{webhook_id}/test', params);
    toast(t('settings.webhooks.testSent'));
  });
  const rotate = useChange(TOUCHES, async () =>
    setSecret((await api.post('/api/webhooks/{webhook_id}/secret', params)).secret),
  );
  const change = useChange(TOUCHES, (isEnabled: boolean) =>
    api.patch('/api/webhooks/{webhook_id}', { ...params, body: { is_enabled: isEnabled } }),
  );
  const remove = useChange(TOUCHES, () => api.delete('/api/webhooks/{webhook_id}', params));
  const url = visibleText(webhook.url);
  const status = webhook.is_enabled ? (
    <StatusPill tone={webhook.failing_since === null ? 'ok' : 'bad'}>
      {webhook.failing_since === null
        ? t('settings.webhooks.on')
        : t('settings.webhooks.failing', { age: formatAge(webhook.failing_since) })}
    </StatusPill>
  ) : (
    <StatusPill tone={webhook.disabled_reason === null ? 'plain' : 'bad'}>
      {webhook.disabled_reason === null
        ? t('settings.webhooks.off')
        : t(`settings.webhooks.reasons.${webhook.disabled_reason}`)}
    </StatusPill>
  );
  return (
    <Tr>
      <Td className="w-full max-w-0 py-1.5" title={url}>
        <p className="truncate font-medium">{url}</p>
        <p className="mt-1 sm:hidden">{status}</p>
      </Td>
      <Td className="min-w-48 text-xs text-muted-foreground max-lg:hidden">
        <span className="line-clamp-2">
          {webhook.types.length === 0 ? t('settings.webhooks.all') : webhook.types.map(changeTypeText).join(', ')}
        </span>
      </Td>
      <Td className="whitespace-nowrap max-sm:hidden">{status}</Td>
      <Td className="text-right">
        <RowMenu
          name={url}
          action={t('common.delete')}
          question={t('settings.webhooks.deleteQuestion')}
          onConfirm={() => remove.mutate()}>
          <MenuItem icon={Send} onChoose={() => test.mutate()}>
            {t('settings.webhooks.test')}
          </MenuItem>
          <MenuItem icon={ListChecks} onChoose={onLog}>
            {t('settings.webhooks.log')}
          </MenuItem>
          <MenuItem icon={KeyRound} onChoose={() => rotate.mutate()}>
            {t('settings.webhooks.rotate')}
          </MenuItem>
          <MenuItem icon={Power} onChoose={() => change.mutate(!webhook.is_enabled)}>
            {webhook.is_enabled ? t('settings.webhooks.disable') : t('settings.webhooks.enable')}
          </MenuItem>
        </RowMenu>
        <Dialog title={t('settings.webhooks.rotate')} open={secret !== null} onClose={() => setSecret(null)} keepsOpen>
          <OneTimeSecret
            hint={t('settings.webhooks.secretHint')}
            label={t('settings.webhooks.secret')}
            secret={secret ?? ''}
            onDone={() => setSecret(null)}
          />
        </Dialog>
      </Td>
    </Tr>
  );
}

function Log({ webhook, onClose }: { webhook: Webhook; onClose: () => void }) {
  const log = useQuery(deliveriesQuery(webhook.id));
  const again = useChange(TOUCHES, async (deliveryId: string) => {
    const params = { path: { webhook_id: webhook.id, delivery_id: deliveryId } };
    await api.post('/api/webhooks/{webhook_id}/deliveries/{delivery_id}', params);
  });
  return (
    <Dialog title={t('settings.webhooks.log')} open onClose={onClose} isWide>
      <p className="break-all text-muted-foreground">{visibleText(webhook.url)}</p>
      {log.isError && <ErrorNotice error={log.error} onRetry={() => void log.refetch()} />}
      {log.data === undefined && !log.isError && <Loading />}
      {log.data?.items.length === 0 && <p>{t('settings.webhooks.nothingSent')}</p>}
      {log.data !== undefined && log.data.items.length > 0 && (
        <Deliveries items={log.data.items} isSending={again.isPending} onAgain={again.mutate} />
      )}
    </Dialog>
  );
}
