/** Which result is shown, if a document has several: each with its table and version, and when it was read. */

import { useQueries } from '@tanstack/react-query';
import type { ExtractionSummary } from '../api/types';
import { Button } from '../components/ui/Button';
import { Select } from '../components/ui/Select';
import { formatTime, visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { schemaVersionQuery } from '../fields/extractionQueries';

interface Props {
  all: readonly ExtractionSummary[];
  shown: string;
  current: string | null;
  onChoose: (extractionId: string) => void;
}

/** Return a function from a version of a schema to "Invoices v4". */
function useTableNames(revids: readonly (string | null)[]): (revid: string | null) => string {
  const known = [...new Set(revids)].filter((one) => one !== null);
  const versions = useQueries({ queries: known.map(schemaVersionQuery) });
  const names = new Map(
    versions.map(({ data }, index) => [
      known[index],
      data === undefined ? '…' : t('document.table', { name: visibleText(data.name), version: data.number }),
    ]),
  );
  return (revid) => (revid === null ? t('document.noTable') : (names.get(revid) ?? '…'));
}

/** The table and version of the only result, beside the tabs. */
export function ResultName({ all }: Props) {
  const tableName = useTableNames(all.map((one) => one.schema_revid));
  const revid = all.length === 1 ? all[0]!.schema_revid : null;
  if (revid === null) return null;
  return (
    <span className="min-w-0 shrink-[999] truncate pr-4 text-xs text-muted-foreground max-sm:hidden">
      {tableName(revid)}
    </span>
  );
}

/** Which of several results is shown. Below the newest: the completed one before it. Below an older one: the newest. */
export function ResultSelect({ all, shown, current, onChoose }: Props) {
  const tableName = useTableNames(all.map((one) => one.schema_revid));
  const newest = all.findIndex((one) => one.id === current);
  const isNewest = shown === current;
  const other = isNewest ? all.slice(newest + 1).find((one) => one.status === 'completed') : all[newest];
  if (all.length < 2 || all.every(({ id }) => id !== shown)) return null;
  return (
    <div className="flex min-w-0 items-center gap-1 px-2 pt-1 text-xs text-muted-foreground">
      <Select
        kind="quiet"
        className="max-w-40 text-xs"
        label={t('document.extraction')}
        value={shown}
        options={all.map(({ id, created_at, status, schema_revid }) => ({
          value: id,
          label: tableName(schema_revid),
          hint: t(id === current ? 'document.currentExtraction' : 'document.extractionOption', {
            time: formatTime(created_at),
            status: t(`document.extractionStatuses.${status}`),
          }),
        }))}
        onChange={onChoose}
      />
      {newest >= 0 && other !== undefined && (
        <>
          <span className="truncate">
            {isNewest
              ? t('document.previousResult', { table: tableName(other.schema_revid) })
              : t('document.olderResult')}
          </span>
          <Button kind="quiet" onClick={() => onChoose(other.id)}>
            {t(isNewest ? 'document.openResult' : 'document.openNewest')}
          </Button>
        </>
      )}
    </div>
  );
}
