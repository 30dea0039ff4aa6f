/** Details of the selected field: its source, errors, suggestions, and who confirmed it. */

import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { useState } from 'react';
import type { Box, Extraction, RuleFix } from '../../api/types';
import { usePersonName } from '../../session/people';
import { Badge } from '../../shared/Badge';
import { Button } from '../../components/ui/Button';
import { formatTime, visibleText } from '../../shared/format';
import { t } from '../../shared/i18n';
import { Icon } from '../../shared/Icon';
import { useShortcut } from '../../shared/shortcuts/useShortcut';
import styles from './FieldPanel.module.css';
import { placesQuery } from '../documentPageQueries';
import type { SchemaField } from '../schemaFields';
import { isStored, type FieldRow, type Leaf } from './fieldTree';
import { pathLabel } from './labels';
import { ProposedValue } from './ProposedValue';
import type { Proposal } from './proposals';
import { SuggestedFixes } from './SuggestedFixes';
import { canBeBlank, describeEvidence, needsPerson, statusSign, statusText } from './fieldStatus';
import { violationText } from './violationText';

interface Props {
  row: FieldRow | undefined;
  canWrite: boolean;
  /** The agent's, for this field or for a list or object around it. */
  proposal: Proposal | undefined;
  onEdit: () => void;
  onConfirm: () => void;
  /** The document has no such value. */
  onBlank: () => void;
  onDecide: (accept: boolean) => void;
  onUnlock: () => void;
  ruleFixes: readonly RuleFix[];
  onUse: (path: string, value: unknown) => void;
  /** undefined: not stored yet. */
  extraction: Pick<Extraction, 'id' | 'version' | 'document_type'> | undefined;
  schema: readonly SchemaField[];
  onPlace: (page: number, box: Box) => void;
}

export function FieldDetails({
  row,
  canWrite,
  proposal,
  onEdit,
  onConfirm,
  onBlank,
  onDecide,
  onUnlock,
  ruleFixes,
  onUse,
  extraction,
  schema,
  onPlace,
}: Props) {
  const personName = usePersonName();
  if (row?.status === undefined) {
    return <section className={`${styles.about} muted`}>{t('fields.selectHint')}</section>;
  }
  const status = { status: row.status, reason: row.reason };
  const { tone, icon } = statusSign(status);
  const leaf = row.kind === 'leaf' ? row : undefined;
  const hasValue = leaf === undefined || (leaf.value !== undefined && leaf.value !== null);
  const label = pathLabel(row.path, schema);
  return (
    <section className={styles.about} aria-label={t('fields.details', { field: label })}>
      <div className={styles.aboutHead}>
        <b className="truncate" title={visibleText(row.path)}>
          {label}
        </b>
        <Badge tone={tone} icon={icon}>
          {statusText(status, leaf?.evidence, leaf?.confidence)}
        </Badge>
        {canWrite && proposal !== undefined && (
          <>
            <Button onClick={() => onDecide(true)}>{t('common.accept')}</Button>
            <Button onClick={() => onDecide(false)}>{t('common.reject')}</Button>
          </>
        )}
        {canWrite && needsPerson(status) && hasValue && proposal === undefined && (
          <Button onClick={onConfirm}>
            {t(row.reason === 'breaks_schema' || row.reason === 'breaks_rule' ? 'fields.keep' : 'common.confirm')}
          </Button>
        )}
        {canWrite && leaf !== undefined && canBeBlank(status, leaf.value) && (
          <Button onClick={onBlank}>{t('fields.notInDocument')}</Button>
        )}
        {canWrite && leaf !== undefined && isStored(leaf) && <Button onClick={onEdit}>{t('common.edit')}</Button>}
        {canWrite && leaf?.lock !== undefined && (
          <Button onClick={onUnlock} title={t('fields.unlockHint')}>
            <Icon name="lock" /> {t('fields.unlock')}
          </Button>
        )}
      </div>
      {row.errors.map((error) => (
        <p key={error.code + error.message} className={styles.bad}>
          {violationText(error, schema)}
        </p>
      ))}
      <SuggestedFixes ruleFixes={canWrite ? ruleFixes : []} path={row.path} schema={schema} onUse={onUse} />
      {proposal !== undefined && <ProposedValue proposal={proposal} path={row.path} schema={schema} />}
      {leaf !== undefined && (
        <p>
          {describeEvidence(leaf)}
          {extraction !== undefined && (
            <>
              {' · '}
              <Link
                to="/review/by-field"
                search={{
                  path: leaf.path,
                  ...(extraction.document_type !== null && { document_type: extraction.document_type }),
                }}>
                {t('fields.inAllDocuments')}
              </Link>
            </>
          )}
        </p>
      )}
      {leaf !== undefined && extraction !== undefined && (leaf.evidence?.location_count ?? 0) > 1 && (
        <Matches key={`${leaf.path} ${extraction.version}`} extraction={extraction} row={leaf} onPlace={onPlace} />
      )}
      {leaf?.evidence?.quote && <p className={styles.quote}>{visibleText(leaf.evidence.quote)}</p>}
      {leaf?.lock !== undefined && (
        <p className="muted">
          {t('fields.confirmedBy', { person: personName(leaf.lock.by), time: formatTime(leaf.lock.at) })}
        </p>
      )}
    </section>
  );
}

const NEXT = { id: 'field.nextMatch', keys: 'p' } as const;

/** Steps through all locations where the value is printed. */
function Matches({
  extraction,
  row,
  onPlace,
}: {
  extraction: Pick<Extraction, 'id' | 'version'>;
  row: Leaf;
  onPlace: Props['onPlace'];
}) {
  const { data } = useQuery(placesQuery(extraction.id, extraction.version, row.path));
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
    <p className={styles.places}>
      <Button kind="quiet" label={t('fields.previousMatch')} onClick={() => go(-1)}>
        <Icon name="left" size={12} />
      </Button>
      <output>{t('fields.match', { number: at + 1, count: row.evidence!.location_count })}</output>
      <Button kind="quiet" label={t('fields.nextMatch')} onClick={() => go(1)}>
        <Icon name="right" size={12} />
      </Button>
    </p>
  );
}

function same(one: readonly number[] | undefined, other: readonly number[] | undefined): boolean {
  return one !== undefined && other !== undefined && one.every((edge, index) => edge === other[index]);
}
