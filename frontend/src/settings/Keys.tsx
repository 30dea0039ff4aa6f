/** API keys: create them with permissions, see their last use, revoke them. */

import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { dataOf, api } from '../api/client';
import type { Key, Organisation, Permission } from '../api/types';
import { Button } from '../components/ui/Button';
import { formatAge, visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { ErrorNotice } from '../components/ui/Notice';
import { Confirm } from '../components/ui/Confirm';
import { ListLimitNotice } from './ListLimitNotice';
import { OneTimeSecret } from './OneTimeSecret';
import styles from './Settings.module.css';
import { keysQuery } from './settingsQueries';
import { useSettingsMutation } from './useSettingsMutation';

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
const DEFAULT_SCOPES: readonly Permission[] = [
  'documents:read',
  'documents:write',
  'extractions:read',
  'runs:read',
  'runs:write',
];
const DAY_MS = 86_400_000;

export function Keys({ organisation }: { organisation: Organisation }) {
  const keys = useQuery(keysQuery(organisation.id));
  const [made, setMade] = useState<string | null>(null);
  const touches = ['organisation', organisation.id, 'keys'];
  const revoke = useSettingsMutation(touches, (keyId: string) =>
    api.DELETE('/api/keys/{key_id}', { params: { path: { key_id: keyId } } }),
  );
  return (
    <>
      {made === null ? (
        organisation.role !== 'viewer' && <NewKey touches={touches} onMade={setMade} />
      ) : (
        <OneTimeSecret
          hint={t('settings.keys.created')}
          label={t('settings.keys.key')}
          secret={made}
          onDone={() => setMade(null)}
        />
      )}
      {keys.isError && <ErrorNotice error={keys.error} onRetry={() => void keys.refetch()} />}
      {(keys.data?.items.length ?? 0) > 0 && (
        <table className={styles.table}>
          <thead>
            <tr>
              <th>{t('settings.keys.name')}</th>
              <th className={styles.second}>{t('settings.keys.permissions')}</th>
              <th>{t('settings.keys.lastUsed')}</th>
              <th>
                <span className="sr-only">{t('common.actions')}</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {keys.data?.items.map((one) => (
              <tr key={one.id}>
                <td className="truncate">
                  {visibleText(one.name)} <code>{one.prefix}…</code>
                </td>
                <td className={`${styles.second} ${styles.may}`}>{one.scopes.join(', ')}</td>
                <td>{statusText(one)}</td>
                <td className={styles.actions}>
                  {one.revoked_at === null && (
                    <Confirm
                      label={t('settings.keys.revoke')}
                      question={t('settings.keys.revokeQuestion', { name: visibleText(one.name) })}
                      onConfirm={() => revoke.mutate(one.id)}
                    />
                  )}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      <ListLimitNotice list={keys.data} />
    </>
  );
}

function NewKey({ touches, onMade }: { touches: readonly unknown[]; onMade: (key: string) => void }) {
  const [name, setName] = useState('');
  const [days, setDays] = useState('90');
  const [scopes, setScopes] = useState<ReadonlySet<Permission>>(new Set(DEFAULT_SCOPES));
  const create = useSettingsMutation(touches, async () => {
    const until = days === '' ? null : new Date(Date.now() + Number(days) * DAY_MS).toISOString();
    const body = { name, scopes: SCOPES.filter((one) => scopes.has(one)), expires_at: until };
    onMade((await dataOf(api.POST('/api/keys', { body }))).key);
  });
  return (
    <form
      className={styles.form}
      onSubmit={(event) => {
        event.preventDefault();
        create.mutate(undefined);
      }}>
      <div className={styles.line}>
        <label className={styles.grows}>
          <span>{t('settings.keys.name')}</span>
          <input
            value={name}
            maxLength={200}
            placeholder={t('settings.keys.namePlaceholder')}
            onChange={(event) => setName(event.target.value)}
          />
        </label>
        <label>
          <span>{t('settings.keys.expiresIn')}</span>
          <select value={days} onChange={(event) => setDays(event.target.value)}>
            <option value="30">{t('settings.keys.days', { count: 30 })}</option>
            <option value="90">{t('settings.keys.days', { count: 90 })}</option>
            <option value="365">{t('settings.keys.year')}</option>
            <option value="">{t('settings.keys.never')}</option>
          </select>
        </label>
        <Button kind="main" type="submit" disabled={create.isPending || name.trim() === '' || scopes.size === 0}>
          {t('settings.keys.create')}
        </Button>
      </div>
      <fieldset className={styles.scopes}>
        <legend>{t('settings.keys.permissions')}</legend>
        {SCOPES.map((one) => (
          <label key={one}>
            <input
              type="checkbox"
              checked={scopes.has(one)}
              onChange={(event) => {
                const next = new Set(scopes);
                if (event.target.checked) next.add(one);
                else next.delete(one);
                setScopes(next);
              }}
            />
            <code>{one}</code>
          </label>
        ))}
      </fieldset>
    </form>
  );
}

function statusText(one: Key): string {
  if (one.revoked_at !== null) return t('settings.keys.revoked', { age: formatAge(one.revoked_at) });
  if (one.expires_at !== null && Date.parse(one.expires_at) <= Date.now()) return t('settings.keys.expired');
  return one.last_used_at === null ? t('settings.keys.neverUsed') : formatAge(one.last_used_at);
}
