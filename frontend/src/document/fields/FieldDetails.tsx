/** What is below the chosen field: its source, all places where its value is printed, and what a person can do. */

import { useQuery } from '@tanstack/react-query';
import { Ban, Check, ChevronLeft, ChevronRight, LockOpen, Pencil } from 'lucide-react';
import { useState } from 'react';
import type { Box, Extraction } from '../../api/types';
import { Button } from '../../components/ui/Button';
import { usePersonName } from '../../session/people';
import { formatTime, visibleText } from '../../shared/format';
import { t } from '../../shared/i18n';
import { useShortcut } from '../../shared/shortcuts/useShortcut';
import { placesQuery } from '../../fields/extractionQueries';
import type { SchemaField } from '../../fields/schemaFields';
import { canBeBlank, describeEvidence, needsPerson } from '../../fields/fieldStatus';
import { type FieldRow, isStored, type Leaf } from '../../fields/fieldTree';
import { displayValue } from '../../fields/fieldValue';
import { pathLabel } from '../../fields/labels';
import { violationText } from '../../fields/violationText';

const NEXT = { id: 'field.nextMatch', keys: 'm' } as const;

interface Props {
  row: FieldRow;
  /** undefined: not stored yet. */
  extraction: Pick<Extraction, 'id' | 'version'> | undefined;
  schema: readonly SchemaField[];
  canWrite: boolean;
  onEdit: () => void;
  onConfirm: () => void;
  /** The document has no such value. */
  onBlank: () => void;
  onUnlock: () => void;
  onPlace: (page: number, box: Box) => void;
}

export function FieldDetails(props: Props) {
  const { row, extraction, schema, canWrite, onEdit, onConfirm, onBlank, onUnlock, onPlace } = props;
  const personName = usePersonName();
  if (row.kind === 'group' || row.status === undefined) return null;
  const status = { status: row.status, reason: row.reason };
  const isOpen = needsPerson(status);
  const canAct = canWrite && isStored(row);
  const { quote, location_count: places = 0 } = row.evidence ?? {};
  return (
    <section
      className="grid gap-1.5 px-2 pt-1 pb-2 text-xs text-muted-foreground"
      aria-label={t('fields.details', { field: pathLabel(row.path, schema) })}>
      <div className="flex flex-wrap items-center gap-x-2 gap-y-1">
        <span>{describeEvidence(row)}</span>
        {extraction !== undefined && places > 1 && (
          <Matches key={`${row.path} ${extraction.version}`} extraction={extraction} row={row} onPlace={onPlace} />
        )}
      </div>
      {quote && visibleText(quote) !== displayValue(row.value, row.field, quote) && (
        <q className="wrap-anywhere">{visibleText(quote)}</q>
      )}
      {!isOpen &&
        row.errors.map((error) => (
          <p key={error.code + error.message} className="text-need">
            {violationText(error, schema)}
          </p>
        ))}
      {row.lock !== undefined && (
        <p>{t('fields.confirmedBy', { person: personName(row.lock.by), time: formatTime(row.lock.at) })}</p>
      )}
      {canAct && (
        <div className="-ml-1 flex flex-wrap gap-1 max-sm:[&>button]:min-h-11">
          <Button kind="quiet" icon={Pencil} keys="E" onClick={onEdit}>
            {t('common.edit')}
          </Button>
          {row.status === 'found' && (
            <Button kind="quiet" icon={Check} onClick={onConfirm}>
              {t('common.confirm')}
            </Button>
          )}
          {!isOpen && canBeBlank(status, row.value) && (
            <Button kind="quiet" icon={Ban} onClick={onBlank}>
              {t('fields.notInDocument')}
            </Button>
          )}
          {row.lock !== undefined && (
            <Button kind="quiet" icon={LockOpen} onClick={onUnlock} title={t('fields.unlockHint')}>
              {t('fields.unlock')}
            </Button>
          )}
        </div>
      )}
    </section>
  );
}

/** Steps through all locations where the value is printed. */
function Matches({ extraction, row, onPlace }: { row: Leaf } & Required<Pick<Props, 'extraction' | 'onPlace'>>) {
  const { data } = useQuery(placesQuery(extraction!.id, extraction!.version, row.path));
  const [seen, setSeen] = useState<number | null>(null);
  const first =
    data?.findIndex((one) => one.page === row.evidence?.page && same(one.boxes[0], row.evidence?.boxes?.[0])) ?? -1;
  const at = seen ?? Math.max(0, first);
  const go = (by: 1 | -1) => {
    if (data === undefined || data.length === 0) return;
    const next = (at + by + data.length) % data.length;
    setSeen(next);
    onPlace(data[next]!.page, data[next]!.boxes[0]!);
  };
  useShortcut(NEXT, () => go(1), data !== undefined);
  if (data === undefined) return null;
  return (
    <span className="flex items-center">
      <Button kind="quiet" icon={ChevronLeft} label={t('fields.previousMatch')} onClick={() => go(-1)} />
      <output>{t('fields.match', { number: at + 1, count: row.evidence!.location_count })}</output>
      <Button kind="quiet" icon={ChevronRight} label={t('fields.nextMatch')} onClick={() => go(1)} />
    </span>
  );
}

function same(one: readonly number[] | undefined, other: readonly number[] | undefined): boolean {
  return one !== undefined && other !== undefined && one.every((edge, index) => edge === other[index]);
}
