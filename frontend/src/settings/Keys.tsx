/** API keys: create one for a purpose, with a ready command; see their last use, revoke them. */

import { useQuery } from '@tanstack/react-query';
import { Ban } from 'lucide-react';
import { useState } from 'react';
import { api } from '../api/client';
import type { QueryKey } from '../api/queryKeys';
import type { Key, Organisation, Permission } from '../api/types';
import { Form } from '../components/ui/Form';
import { DAY_MS, formatAge, formatDay, formatShortDay, formatTime, visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import type en from '../locales/en.json';
import { serviceAddress } from '../shared/serviceAddress';
import { cn } from '../components/ui/cn';
import { DialogActions } from '../components/ui/Dialog';
import { RowMenu } from './RowMenu';
import { SettingsList } from './SettingsTable';
import { AddSecret } from './OneTimeSecret';
import { Checkbox } from '../components/ui/Checkbox';
import { Field } from '../components/ui/Field';
import { Input } from '../components/ui/Input';
import { Select } from '../components/ui/Select';
import { Td, Th, Tr } from '../components/ui/Table';
import { keysQuery } from './settingsQueries';
import { useChange } from '../shared/useChange';

const SCOPES: readonly Permission[] = [
  'documents:read',
  'documents:write',
  'documents:add',
  'extractions:read',
  'extractions:write',
  'runs:read',
  'runs:write',
  'runs:approve',
  'schemas:read',
  'schemas:write',
  'usage:read',
  'members:read',
  'members:write',
  'keys:read',
  'keys:write',
];
/** What a key is for, and what it may do then. `custom`: as chosen. */
const PURPOSES = {
  add: ['documents:add'],
  send: ['documents:read', 'documents:write', 'extractions:read', 'runs:read', 'runs:write'],
  read: ['documents:read', 'extractions:read', 'runs:read', 'schemas:read', 'usage:read'],
  full: SCOPES,
  custom: null,
} as const satisfies Record<string, readonly Permission[] | null>;
type KeyPage = { items: Key[]; next?: string | null };
type Purpose = keyof typeof PURPOSES;
const EXPIRIES = ['30', '90', '365', 'never'] as const;

const keysOf = (organisation: Organisation): QueryKey => ['organisation', organisation.id, 'keys'];

/** The button that creates a key. */
export function CreateKey({ organisation }: { organisation: Organisation }) {
  return (
    <AddSecret
      title={t('settings.keys.create')}
      hint={t('settings.keys.created')}
      label={t('settings.keys.key')}
      form={(onMade, onClose) => <NewKey touches={keysOf(organisation)} onMade={onMade} onClose={onClose} />}
    />
  );
}

export function Keys({ organisation }: { organisation: Organisation }) {
  // Keys that can no longer be used are last.
  const select = ({ items, ...page }: KeyPage) => ({
    ...page,
    items: items.toSorted((a, b) => +isUsable(b) - +isUsable(a)),
  });
  const keys = useQuery({ ...keysQuery(organisation.id), select });
  const revoke = useChange([keysOf(organisation)], (keyId: string) =>
    api.delete('/api/keys/{key_id}', { path: { key_id: keyId } }),
  );
  return (
    <SettingsList
      label={t('settings.sections.keys')}
      hint={t('settings.keys.hint')}
      list={keys}
      empty={<p className="text-muted-foreground">{t('settings.keys.none')}</p>}
      heads={
        <>
          <Th>{t('settings.keys.name')}</Th>
          <Th className="max-lg:hidden">{t('settings.keys.permissions')}</Th>
          <Th className="max-lg:hidden">{t('settings.keys.lastUsed')}</Th>
          <Th className="max-lg:hidden">{t('settings.keys.expires')}</Th>
        </>
      }
      row={(one) => (
        <Tr key={one.id} className={cn(!isUsable(one) && 'text-muted-foreground')}>
          <Td className="w-full max-w-0 min-w-40 py-1.5">
            <p className="flex items-baseline gap-2">
              <span className="truncate font-medium">{visibleText(one.name)}</span>
              <code className="text-xs text-muted-foreground">{one.prefix}…</code>
            </p>
            <p className="text-xs text-muted-foreground lg:hidden">
              {[permissionsText(one), usedText(one, true), endText(one, true)].join(' · ')}
            </p>
          </Td>
          <Td className="min-w-40 max-lg:hidden lg:min-w-56" title={one.scopes.join(', ')}>
            <span className="line-clamp-2">{permissionsText(one)}</span>
          </Td>
          <Td className="whitespace-nowrap max-lg:hidden">{usedText(one)}</Td>
          <Td
            className={cn('whitespace-nowrap max-lg:hidden', endsSoon(one) && 'font-medium text-need')}
            title={one.expires_at === null ? undefined : formatTime(one.expires_at)}>
            {endText(one)}
          </Td>
          <Td className="text-right">
            {one.revoked_at === null && (
              <RowMenu
                name={visibleText(one.name)}
                icon={Ban}
                action={t('settings.keys.revoke')}
                question={t('settings.keys.revokeQuestion')}
                onConfirm={() => revoke.mutate(one.id)}
              />
            )}
          </Td>
        </Tr>
      )}
    />
  );
}

interface NewKeyProps {
  touches: QueryKey;
  onMade: (made: { secret: string; example: string }) => void;
  onClose: () => void;
}

function NewKey({ touches, onMade, onClose }: NewKeyProps) {
  const [name, setName] = useState('');
  const [expiry, setExpiry] = useState<(typeof EXPIRIES)[number]>('90');
  const [purpose, setPurpose] = useState<Purpose>('send');
  const [chosen, setChosen] = useState<readonly Permission[]>(PURPOSES.send);
  const scopes: readonly Permission[] = PURPOSES[purpose] ?? chosen;
  const create = useChange([touches], async () => {
    const seconds = expiry === 'never' ? null : Number(expiry) * 86_400;
    const body = { name, scopes: [...scopes], expires_in_seconds: seconds };
    const { key } = await api.post('/api/keys', { body });
    const canSend = scopes.some((one) => one === 'documents:add' || one === 'documents:write');
    onMade({ secret: key, example: exampleOf(key, canSend) });
  });
  return (
    <Form className="grid gap-4" onSubmit={() => create.mutate()}>
      <Field label={t('settings.keys.name')}>
        <Input value={name} maxLength={200} placeholder={t('settings.keys.namePlaceholder')} onValueChange={setName} />
      </Field>
      <Field label={t('settings.keys.purpose')}>
        <Select
          value={purpose}
          options={(Object.keys(PURPOSES) as Purpose[]).map((value) => ({
            value,
            label: t(`settings.keys.purposes.${value}`),
          }))}
          onChange={setPurpose}
        />
      </Field>
      {purpose === 'custom' && (
        <fieldset className="grid gap-x-4 sm:grid-cols-2">
          <legend className="mb-1 text-xs text-muted-foreground">{t('settings.keys.permissions')}</legend>
          {SCOPES.map((one) => (
            <Checkbox
              key={one}
              checked={chosen.includes(one)}
              onChange={(isOn) => setChosen(SCOPES.filter((other) => (other === one ? isOn : chosen.includes(other))))}>
              <span title={one}>{scopeText(one)}</span>
            </Checkbox>
          ))}
        </fieldset>
      )}
      <Field label={t('settings.keys.expiresIn')}>
        <Select
          value={expiry}
          options={EXPIRIES.map((value) => ({ value, label: expiryText(value) }))}
          onChange={setExpiry}
        />
      </Field>
      <DialogActions
        label={t('settings.keys.create')}
        disabled={create.isPending || name.trim() === '' || scopes.length === 0}
        onClose={onClose}
      />
    </Form>
  );
}

/** A command that works with the new key. */
function exampleOf(key: string, canSend: boolean): string {
  const call = `curl ${serviceAddress}/api/documents \\\n  -H "Authorization: Bearer ${key}"`;
  return canSend ? `${call} \\\n  -F file=@invoice.pdf` : call;
}

function expiryText(expiry: (typeof EXPIRIES)[number]): string {
  if (expiry === 'never') return t('settings.keys.noEnd');
  return expiry === '365' ? t('settings.keys.year') : t('settings.keys.days', { count: Number(expiry) });
}

/** The purpose with exactly these permissions, else the permissions. */
function permissionsText({ scopes }: Key): string {
  const isSame = (others: readonly Permission[] | null) =>
    others?.length === scopes.length && others.every((one) => scopes.includes(one));
  const purpose = (Object.keys(PURPOSES) as Purpose[]).find((one) => isSame(PURPOSES[one]));
  return purpose === undefined ? scopes.map(scopeText).join(', ') : t(`settings.keys.purposes.${purpose}`);
}

function scopeText(scope: Permission): string {
  return t(`settings.keys.scopes.${scope.replace(':', '__') as keyof typeof en.settings.keys.scopes}`);
}

function isUsable({ revoked_at: revoked, is_expired: isExpired }: Key): boolean {
  return revoked === null && !isExpired;
}

/** `isAlone`: without the head of a column. */
function usedText({ last_used_at: at }: Key, isAlone = false): string {
  if (at === null) return t('settings.keys.neverUsed');
  return isAlone ? t('settings.keys.usedAt', { age: formatAge(at) }) : formatAge(at);
}

/** Within two weeks. */
function endsSoon(one: Key): boolean {
  return isUsable(one) && one.expires_at !== null && Date.parse(one.expires_at) < Date.now() + 14 * DAY_MS;
}

/** When a key ends or ended, with the year where the day could be of two. */
function endText(one: Key, isAlone = false): string {
  if (one.revoked_at !== null) return t('settings.keys.revoked', { age: formatAge(one.revoked_at) });
  if (one.expires_at === null) return t('settings.keys.noEnd');
  if (!isUsable(one)) return t('settings.keys.expired', { age: formatAge(one.expires_at) });
  const isNear = Date.parse(one.expires_at) < Date.now() + 180 * DAY_MS;
  const day = (isNear ? formatShortDay : formatDay)(one.expires_at);
  return isAlone ? t('settings.keys.expiresOn', { day }) : day;
}
