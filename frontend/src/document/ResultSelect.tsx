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

export function ResultSelect({ all, shown, current, onChoose }: Props) {
  const tableName = useTableNames(all.map((one) => one.schema_revid));
  const one = all.find(({ id }) => id === shown);
  if (one === undefined) return null;
  if (all.length < 2)
    return one.schema_revid === null ? null : (
      <span className="max-w-40 shrink-0 truncate pr-4 @max-sm:hidden text-xs text-muted-foreground">
        {tableName(one.schema_revid)}
      </span>
    );
  return (
    <Select
      kind="quiet"
      className="mr-2 max-w-40 text-xs"
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
  );
}

/** Below the newest result: the completed one before it. Below an older one: that there is a newer one. */
export function OtherResult({ all, shown, current, onChoose }: Props) {
  const newest = all.findIndex((one) => one.id === current);
  const isNewest = shown === current;
  const other = isNewest ? all.slice(newest + 1).find((one) => one.status === 'completed') : all[newest];
  if (newest < 0 || other === undefined) return null;
  return (
    <p className="flex items-center gap-1 px-4 pt-2 text-xs text-muted-foreground">
      {isNewest ? t('document.previousResult', { time: formatTime(other.created_at) }) : t('document.olderResult')}
      <Button kind="quiet" onClick={() => onChoose(other.id)}>
        {t(isNewest ? 'document.openResult' : 'document.openNewest')}
      </Button>
    </p>
  );
}
