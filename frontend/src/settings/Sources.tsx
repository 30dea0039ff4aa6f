/** Sources: buckets and mailboxes whose files become documents, with what was taken and what to do about errors. */

import { useQuery } from '@tanstack/react-query';
import { FolderInput, KeyRound, Plus, Power, RefreshCw } from 'lucide-react';
import { useState } from 'react';
import { api } from '../api/client';
import type { DocumentSource } from '../api/types';
import { Button } from '../components/ui/Button';
import { Form } from '../components/ui/Form';
import { Dialog, DialogActions } from '../components/ui/Dialog';
import { EmptyState } from '../components/ui/EmptyState';
import { Field } from '../components/ui/Field';
import { Input } from '../components/ui/Input';
import { MenuItem } from '../components/ui/Menu';
import { Select } from '../components/ui/Select';
import { StatusPill } from '../components/ui/StatusPill';
import { Td, Th, Tr } from '../components/ui/Table';
import { toast } from '../components/ui/Toast';
import { schemasQuery } from '../fields/extractionQueries';
import en from '../locales/en.json';
import { formatAge, formatNumber, visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { sourcesQuery } from './settingsQueries';
import { RowMenu } from './RowMenu';
import { SettingsList } from './SettingsTable';
import { useChange } from '../shared/useChange';

const TOUCHES = ['sources'] as const;
const KINDS = ['bucket', 'mailbox'] as const;
const NOTHING = '';

export function Sources() {
  const listed = useQuery(sourcesQuery);
  const [isAdding, setAdding] = useState(false);
  return (
    <>
      {isAdding && <NewSource onClose={() => setAdding(false)} />}
      <SettingsList
        label={t('settings.sections.sources')}
        hint={t('settings.sources.hint')}
        add={
          <Button kind="main" icon={Plus} onClick={() => setAdding(true)}>
            {t('settings.sources.add')}
          </Button>
        }
        list={listed}
        empty={<EmptyState icon={FolderInput} title={t('settings.sources.none')} />}
        heads={
          <>
            <Th>{t('settings.sources.address')}</Th>
            <Th className="max-sm:hidden">{t('settings.invitations.status')}</Th>
            <Th className="text-right max-sm:hidden">{t('settings.sources.taken')}</Th>
            <Th className="max-lg:hidden">{t('settings.sources.last')}</Th>
          </>
        }
        row={(one) => <SourceRow key={one.id} source={one} />}
      />
    </>
  );
}

function NewSource({ onClose }: { onClose: () => void }) {
  const schemas = useQuery(schemasQuery);
  const [kind, setKind] = useState<DocumentSource['kind']>('bucket');
  const [address, setAddress] = useState('');
  const [folder, setFolder] = useState('');
  const [username, setUsername] = useState('');
  const [secret, setSecret] = useState('');
  const [schema, setSchema] = useState(NOTHING);
  const add = useChange(TOUCHES, async () => {
    const where = { kind, address: address.trim(), folder: folder.trim(), username: username.trim(), secret };
    await api.post('/api/sources', { body: { ...where, ...(schema === NOTHING ? {} : { extract: schema }) } });
    onClose();
  });
  const isFilled = [address, username, secret].every((one) => one.trim() !== '');
  return (
    <Dialog title={t('settings.sources.add')} open onClose={onClose} isWide>
      <Form className="grid items-end gap-3 sm:grid-cols-2" autoComplete="off" onSubmit={() => add.mutate()}>
        <Field label={t('settings.sources.kind')}>
          <Select
            value={kind}
            options={KINDS.map((value) => ({ value, label: t(`settings.sources.kinds.${value}`) }))}
            onChange={setKind}
          />
        </Field>
        <Field label={t('settings.sources.address')}>
          <Input
            value={address}
            maxLength={2000}
            placeholder={t(`settings.sources.addresses.${kind}`)}
            onValueChange={setAddress}
          />
        </Field>
        <Field label={t(`settings.sources.usernames.${kind}`)}>
          <Input value={username} maxLength={500} onValueChange={setUsername} />
        </Field>
        <Field label={t(`settings.sources.secrets.${kind}`)}>
          <Input
            type="password"
            autoComplete="new-password"
            value={secret}
            maxLength={5000}
            onValueChange={setSecret}
          />
        </Field>
        <Field label={t('settings.sources.folder')}>
          <Input
            value={folder}
            maxLength={500}
            placeholder={t(`settings.sources.folders.${kind}`)}
            onValueChange={setFolder}
          />
        </Field>
        <Field label={t('settings.sources.extract')}>
          <Select
            value={schema}
            options={[
              { value: NOTHING, label: t('settings.sources.byRules') },
              ...(schemas.data ?? []).map(({ id, name }) => ({ value: id, label: visibleText(name) })),
            ]}
            onChange={setSchema}
          />
        </Field>
        <div className="pt-1 sm:col-span-2">
          <DialogActions label={t('settings.sources.add')} disabled={add.isPending || !isFilled} onClose={onClose} />
        </div>
      </Form>
    </Dialog>
  );
}

function SourceRow({ source }: { source: DocumentSource }) {
  const params = { path: { source_id: source.id } };
  const check = useChange(TOUCHES, async () => {
    await api.post('/api/sources/{source_id}/check', params);
    toast(t('settings.sources.checking'));
  });
  const change = useChange(TOUCHES, (body: { is_paused?: boolean; secret?: string }) =>
    api.patch('/api/sources/{source_id}', { ...params, body }),
  );
  const remove = useChange(TOUCHES, () => api.delete('/api/sources/{source_id}', params));
  const [isAsking, setAsking] = useState(false);
  const [secret, setSecret] = useState('');
  const address = visibleText(source.address);
  const name = source.folder === '' ? address : `${address} · ${visibleText(source.folder)}`;
  const skipped = Object.entries(source.skipped).map(([reason, count]) => `${reasonText(reason)}: ${count}`);
  const close = () => {
    setAsking(false);
    setSecret('');
  };
  const status = (
    <>
      <State source={source} />
      {source.error_code !== null && <p className="text-xs text-muted-foreground">{errorText(source.error_code)}</p>}
      <Failures source={source} />
    </>
  );
  return (
    <Tr>
      <Td className="w-full max-w-0 py-1.5" title={name}>
        <p className="truncate font-medium">{address}</p>
        {source.folder !== '' && <p className="truncate text-xs text-muted-foreground">{visibleText(source.folder)}</p>}
        <div className="mt-1 sm:hidden">{status}</div>
      </Td>
      <Td className="min-w-52 py-1.5 max-sm:hidden">{status}</Td>
      <Td className="whitespace-nowrap text-right max-sm:hidden" title={skipped.join('\n')}>
        {formatNumber(source.taken)}
        {skipped.length > 0 && (
          <p className="text-xs text-muted-foreground">
            {t('settings.sources.skipped', { count: Object.values(source.skipped).reduce((sum, one) => sum + one, 0) })}
            <span className="sr-only">{skipped.join(', ')}</span>
          </p>
        )}
      </Td>
      <Td className="w-52 max-w-52 min-w-36 max-lg:hidden" title={visibleText(source.last_object ?? '')}>
        {source.last_object_at !== null && formatAge(source.last_object_at)}
        {source.last_object !== null && (
          <p className="truncate text-xs text-muted-foreground">
            {visibleText(source.last_object.split('/').at(-1) ?? '')}
          </p>
        )}
      </Td>
      <Td className="text-right">
        <RowMenu
          name={name}
          action={t('common.delete')}
          question={t('settings.sources.deleteQuestion')}
          onConfirm={() => remove.mutate()}>
          <MenuItem icon={RefreshCw} onChoose={() => check.mutate()}>
            {t('settings.sources.check')}
          </MenuItem>
          <MenuItem icon={KeyRound} onChoose={() => setAsking(true)}>
            {t('settings.sources.replaceSecret')}
          </MenuItem>
          <MenuItem icon={Power} onChoose={() => change.mutate({ is_paused: !source.is_paused })}>
            {source.is_paused ? t('settings.sources.continue') : t('settings.sources.pause')}
          </MenuItem>
        </RowMenu>
        <Dialog title={t('settings.sources.replaceSecret')} open={isAsking} onClose={close}>
          <Form
            className="grid gap-3"
            onSubmit={() => {
              change.mutate({ secret });
              close();
            }}>
            <Field label={t(`settings.sources.secrets.${source.kind}`)}>
              <Input
                type="password"
                autoComplete="new-password"
                value={secret}
                maxLength={5000}
                onValueChange={setSecret}
              />
            </Field>
            <DialogActions label={t('common.save')} disabled={secret === ''} onClose={close} />
          </Form>
        </Dialog>
      </Td>
    </Tr>
  );
}

function State({ source }: { source: DocumentSource }) {
  if (source.is_paused) return <StatusPill tone="plain">{t('settings.sources.paused')}</StatusPill>;
  if (source.failing_since !== null)
    return (
      <StatusPill tone="bad">{t('settings.webhooks.failing', { age: formatAge(source.failing_since) })}</StatusPill>
    );
  if (source.checked_at === null) return <StatusPill tone="plain">{t('settings.sources.reading')}</StatusPill>;
  return <StatusPill tone="ok">{t('settings.sources.checked', { age: formatAge(source.checked_at) })}</StatusPill>;
}

function Failures({ source }: { source: DocumentSource }) {
  const count = source.retrying + source.failed;
  if (count === 0) return null;
  return (
    <details className="text-xs text-muted-foreground">
      <summary className="cursor-pointer">{t('settings.sources.notTaken', { count })}</summary>
      <ul className="break-all">
        {source.failures.map(({ name, error_code: code, due_at: dueAt }) => (
          <li key={name}>
            {t(dueAt === null ? 'settings.sources.givenUp' : 'settings.sources.retried', {
              name: visibleText(name),
              code,
            })}
          </li>
        ))}
      </ul>
    </details>
  );
}

function errorText(code: string): string {
  return Object.hasOwn(en.settings.sources.errors, code)
    ? t(`settings.sources.errors.${code as keyof typeof en.settings.sources.errors}`)
    : t('settings.sources.otherError', { code });
}

function reasonText(reason: string): string {
  return Object.hasOwn(en.settings.sources.reasons, reason)
    ? t(`settings.sources.reasons.${reason as keyof typeof en.settings.sources.reasons}`)
    : reason;
}
