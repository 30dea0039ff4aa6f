/** API keys: create one for a purpose, with a ready command; see their last use, revoke them. */

import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { api } from '../api/client';
import type { QueryKey } from '../api/queryKeys';
import type { Key, Organisation, Permission } from '../api/types';
import { Button } from '../components/ui/Button';
import { Form } from '../components/ui/Form';
import { formatAge, visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { serviceAddress } from '../shared/serviceAddress';
import { Confirm } from '../components/ui/Confirm';
import { SettingsTable } from './SettingsTable';
import { OneTimeSecret } from './OneTimeSecret';
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
type Purpose = keyof typeof PURPOSES;
const EXPIRIES = ['30', '90', '365', 'never'] as const;

export function Keys({ organisation }: { organisation: Organisation }) {
  const keys = useQuery(keysQuery(organisation.id));
  const [made, setMade] = useState<{ key: string; canSend: boolean } | null>(null);
  const touches = ['organisation', organisation.id, 'keys'] as const;
  const revoke = useChange([touches], (keyId: string) => api.delete('/api/keys/{key_id}', { path: { key_id: keyId } }));
  return (
    <>
      {made === null ? (
        organisation.role !== 'viewer' && <NewKey touches={touches} onMade={setMade} />
      ) : (
        <OneTimeSecret
          hint={t('settings.keys.created')}
          label={t('settings.keys.key')}
          secret={made.key}
          example={exampleOf(made)}
          onDone={() => setMade(null)}
        />
      )}
      <SettingsTable
        label={t('settings.sections.keys')}
        list={keys}
        empty={<p className="text-muted-foreground">{t('settings.keys.none')}</p>}
        heads={
          <>
            <Th>{t('settings.keys.name')}</Th>
            <Th className="max-sm:hidden">{t('settings.keys.permissions')}</Th>
            <Th className="max-sm:hidden">{t('settings.keys.lastUsed')}</Th>
          </>
        }
        row={(one) => (
          <Tr key={one.id}>
            <Td className="w-full max-w-0 py-1.5">
              <p className="truncate font-medium">{visibleText(one.name)}</p>
              <p className="text-xs text-muted-foreground">
                <code>{one.prefix}…</code>
                <span className="sm:hidden"> · {permissionsText(one)}</span>
                <span className="sm:hidden"> · {statusText(one)}</span>
              </p>
            </Td>
            <Td className="max-w-60 truncate max-sm:hidden" title={one.scopes.join(', ')}>
              {permissionsText(one)}
            </Td>
            <Td className="whitespace-nowrap max-sm:hidden">{statusText(one)}</Td>
            <Td className="text-right">
              {one.revoked_at === null && (
                <Confirm
                  label={t('settings.keys.revoke')}
                  question={t('settings.keys.revokeQuestion', { name: visibleText(one.name) })}
                  onConfirm={() => revoke.mutate(one.id)}
                />
              )}
            </Td>
          </Tr>
        )}
      />
    </>
  );
}

interface NewKeyProps {
  touches: QueryKey;
  onMade: (made: { key: string; canSend: boolean }) => void;
}

function NewKey({ touches, onMade }: NewKeyProps) {
  const [name, setName] = useState('');
  const [expiry, setExpiry] = useState<(typeof EXPIRIES)[number]>('90');
  const [purpose, setPurpose] = useState<Purpose>('send');
  const [chosen, setChosen] = useState<readonly Permission[]>(PURPOSES.send);
  const scopes: readonly Permission[] = PURPOSES[purpose] ?? chosen;
  const create = useChange([touches], async () => {
    const seconds = expiry === 'never' ? null : Number(expiry) * 86_400;
    const body = { name, scopes: [...scopes], expires_in_seconds: seconds };
    const { key } = await api.post('/api/keys', { body });
    onMade({ key, canSend: scopes.some((one) => one === 'documents:add' || one === 'documents:write') });
  });
  return (
    <Form className="grid gap-4" onSubmit={() => create.mutate()}>
      <div className="flex flex-wrap items-end gap-3">
        <Field label={t('settings.keys.name')} className="min-w-48 flex-1">
          <Input
            value={name}
            maxLength={200}
            placeholder={t('settings.keys.namePlaceholder')}
            onValueChange={setName}
          />
        </Field>
        <Field label={t('settings.keys.purpose')} className="w-56">
          <Select
            value={purpose}
            options={(Object.keys(PURPOSES) as Purpose[]).map((value) => ({
              value,
              label: t(`settings.keys.purposes.${value}`),
            }))}
            onChange={setPurpose}
          />
        </Field>
        <Field label={t('settings.keys.expiresIn')} className="w-32">
          <Select
            value={expiry}
            options={EXPIRIES.map((value) => ({ value, label: expiryText(value) }))}
            onChange={setExpiry}
          />
        </Field>
        <Button
          kind="main"
          size="md"
          type="submit"
          disabled={create.isPending || name.trim() === '' || scopes.length === 0}>
          {t('settings.keys.create')}
        </Button>
      </div>
      {purpose === 'custom' && (
        <fieldset className="grid gap-x-4 sm:grid-cols-3">
          <legend className="mb-1 text-xs text-muted-foreground">{t('settings.keys.permissions')}</legend>
          {SCOPES.map((one) => (
            <Checkbox
              key={one}
              checked={chosen.includes(one)}
              onChange={(isOn) => setChosen(SCOPES.filter((other) => (other === one ? isOn : chosen.includes(other))))}>
              <code>{one}</code>
            </Checkbox>
          ))}
        </fieldset>
      )}
    </Form>
  );
}

/** A command that works with the new key. */
function exampleOf({ key, canSend }: { key: string; canSend: boolean }): string {
  const call = `curl ${serviceAddress}/api/documents \\\n  -H "Authorization: Bearer ${key}"`;
  return canSend ? `${call} \\\n  -F file=@invoice.pdf` : call;
}

function expiryText(expiry: (typeof EXPIRIES)[number]): string {
  if (expiry === 'never') return t('settings.keys.never');
  return expiry === '365' ? t('settings.keys.year') : t('settings.keys.days', { count: Number(expiry) });
}

/** The purpose with exactly these permissions, else the permissions. */
function permissionsText({ scopes }: Key): string {
  const isSame = (others: readonly Permission[] | null) =>
    others?.length === scopes.length && others.every((one) => scopes.includes(one));
  const purpose = (Object.keys(PURPOSES) as Purpose[]).find((one) => isSame(PURPOSES[one]));
  return purpose === undefined ? scopes.join(', ') : t(`settings.keys.purposes.${purpose}`);
}

function statusText(one: Key): string {
  if (one.revoked_at !== null) return t('settings.keys.revoked', { age: formatAge(one.revoked_at) });
  if (one.expires_at !== null && Date.parse(one.expires_at) <= Date.now()) return t('settings.keys.expired');
  return one.last_used_at === null ? t('settings.keys.neverUsed') : formatAge(one.last_used_at);
}
