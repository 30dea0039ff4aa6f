/** The values that the newest run with changes replaced: old and new side by side, each to be confirmed or restored. The one
 * that is no longer the row's value is crossed out. */

import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { atVersion } from '../api/atVersion';
import { api } from '../api/client';
import type { ReplacedValue, Stack } from '../api/types';
import { displayValue } from '../fields/fieldValue';
import { pathLabel } from '../fields/labels';
import { Button } from '../components/ui/Button';
import { Dialog } from '../components/ui/Dialog';
import { visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { Loading } from '../components/ui/Loading';
import { ErrorNotice } from '../components/ui/Notice';
import { changeState, isVisible, misfit } from './replacedValue';
import { replacedQuery } from '../records/stackQueries';
import { useChange } from '../shared/useChange';

export function ChangesDialog({ stack, canWrite, onClose }: { stack: Stack; canWrite: boolean; onClose: () => void }) {
  const replaced = useQuery(replacedQuery(stack.id));
  const shown = replaced.data?.items.filter(isVisible) ?? [];
  const alike = (replaced.data?.items.length ?? 0) - shown.length;
  return (
    <Dialog title={t('stacks.changes')} open onClose={onClose} isWide>
      {replaced.isError ? (
        <ErrorNotice error={replaced.error} onRetry={() => void replaced.refetch()} />
      ) : replaced.data === undefined ? (
        <Loading />
      ) : replaced.data.items.length === 0 ? (
        <p>{t('stacks.noChanges')}</p>
      ) : (
        <>
          <p className="muted">
            {t(replaced.data.next === null ? 'stacks.changeCount' : 'stacks.firstChanges', {
              count: replaced.data.items.length,
            })}
            {alike > 0 && ` ${t('stacks.alike', { count: alike })}`}
          </p>
          {shown.length > 0 && (
            <table className="w-full border-collapse text-left max-sm:block max-sm:[&_thead]:hidden max-sm:[&_tr]:grid max-sm:[&_tr]:py-2 [&_td]:p-2 [&_td]:wrap-anywhere [&_th]:p-2 [&_th]:font-normal [&_tr]:border-b [&_tr]:border-line">
              <thead>
                <tr>
                  <th>{t('tables.document')}</th>
                  <th>{t('stacks.field')}</th>
                  <th>{t('stacks.oldValue')}</th>
                  <th>{t('stacks.newValue')}</th>
                  <th />
                </tr>
              </thead>
              <tbody>
                {shown.map((one) => (
                  <ChangeRow
                    key={`${one.extraction_id} ${one.path}`}
                    one={one}
                    columns={stack.columns}
                    canWrite={canWrite}
                  />
                ))}
              </tbody>
            </table>
          )}
        </>
      )}
    </Dialog>
  );
}

function ChangeRow({ one, columns, canWrite }: { one: ReplacedValue; columns: Stack['columns']; canWrite: boolean }) {
  const [field, name] = [pathLabel(one.path), visibleText(one.filename)];
  const params = atVersion(one.extraction_id, one.version);
  const decide = useChange(
    ['stacks', 'records'],
    (isRestored: boolean): Promise<unknown> =>
      isRestored
        ? api.patch('/api/extractions/{extraction_id}/fields', { ...params, body: { path: one.path, value: one.old } })
        : api.post('/api/extractions/{extraction_id}/locks', { ...params, query: { path: one.path } }),
  );
  const state = changeState(one);
  const why = state === 'restored' ? null : misfit(columns, one.path, one.old);
  const Old = state === 'restored' ? 'span' : 'del';
  const New = state === 'current' || state === 'confirmed' ? 'span' : 'del';
  return (
    <tr>
      <td className="truncate">
        <Link to="/documents/$documentId" params={{ documentId: one.document_id }}>
          {name}
        </Link>
      </td>
      <td title={visibleText(one.path)}>{field}</td>
      <td data-label={t('stacks.oldValue')}>
        <Old>{valueText(one.old)}</Old>
        {why !== null && <small className="block text-muted-foreground">{t(`stacks.misfits.${why}`)}</small>}
      </td>
      <td data-label={t('stacks.newValue')}>
        <New>{valueText(one.new)}</New>
      </td>
      <td className="text-right [&>*]:m-0.5">
        {state !== 'current' && (
          <span>
            {state === 'changed'
              ? t('stacks.changedSince', { value: valueText(one.now) })
              : t(`stacks.changeStates.${state}`)}
          </span>
        )}
        {canWrite && one.is_current && (
          <>
            {state === 'current' && one.new !== null && (
              <Button
                aria-label={t('stacks.keepNewOf', { field, name })}
                disabled={decide.isPending}
                onClick={() => decide.mutate(false)}>
                {t('stacks.keepNew')}
              </Button>
            )}
            {why === null && (
              <Button
                aria-label={t('stacks.restoreOldOf', { field, name })}
                disabled={decide.isPending}
                onClick={() => decide.mutate(true)}>
                {t('stacks.restoreOld')}
              </Button>
            )}
          </>
        )}
      </td>
    </tr>
  );
}

function valueText(value: unknown): string {
  return displayValue(value) || t('fields.nothing');
}
