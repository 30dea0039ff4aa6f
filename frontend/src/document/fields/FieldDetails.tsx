/** All that is known of the chosen field: where it was found, what the page prints, who set it, what is wrong with it. */

import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { useState } from 'react';
import type { Box, Extraction, RuleReading } from '../../api/types';
import { meQuery } from '../../session/config';
import { Badge } from '../../shared/Badge';
import { Button } from '../../shared/Button';
import { atMoment, visibleText } from '../../shared/format';
import { Icon } from '../../shared/Icon';
import { useShortcut } from '../../shared/shortcuts/useShortcut';
import styles from './FieldPanel.module.css';
import { placesQuery } from '../documentPageQueries';
import { isStored, type FieldRow, type Leaf } from './fieldTree';
import { shown } from './fieldValue';
import { SuggestedFixes } from './SuggestedFixes';
import { evidenceSentence, FIELD_STATUSES } from './fieldStatus';

interface Props {
  row: FieldRow | undefined;
  /** The person changes something here. */
  canWrite: boolean;
  /** What an agent would have written here. */
  proposal: Extraction['proposals'][number] | undefined;
  onEdit: () => void;
  onDecide: (accept: boolean) => void;
  onUnlock: () => void;
  readings: readonly RuleReading[];
  onTake: (value: unknown) => void;
  /** What the extraction is, for other places of the value; undefined: it is not stored yet. */
  of: Pick<Extraction, 'id' | 'version' | 'document_type'> | undefined;
  onPlace: (page: number, box: Box) => void;
}

export function FieldDetails({ row, canWrite, proposal, onEdit, onDecide, onUnlock, readings, onTake, of, onPlace }: Props) {
  const me = useQuery(meQuery);
  if (row === undefined || row.kind === 'group') {
    return <section className={`${styles.about} muted`}>Select a field to see its source. Press Enter to edit.</section>;
  }
  const { words, tone, icon } = FIELD_STATUSES[row.status];
  return (
    <section className={styles.about} aria-label={`About ${row.path}`}>
      <div className={styles.aboutHead}>
        <code className="truncate" title={visibleText(row.path)}>
          {visibleText(row.path)}
        </code>
        <Badge tone={tone} icon={icon}>
          {words}
        </Badge>
        {canWrite && isStored(row) && <Button onClick={onEdit}>Edit</Button>}
        {canWrite && row.lock !== undefined && (
          <Button onClick={onUnlock} title="Allow the agent to change this">
            <Icon name="lock" /> Unlock
          </Button>
        )}
      </div>
      {row.errors.map((error) => (
        <p key={error.code + error.message} className={styles.bad}>
          {error.message}
        </p>
      ))}
      <SuggestedFixes readings={canWrite ? readings : []} path={row.path} onTake={onTake} />
      {proposal !== undefined && (
        <div className={styles.aboutHead}>
          <span className="truncate">
            Suggested: {proposal.removed ? 'remove' : <q>{shown(proposal.new)}</q>}
          </span>
          {canWrite && (
            <>
              <Button onClick={() => onDecide(true)}>Accept</Button>
              <Button onClick={() => onDecide(false)}>Reject</Button>
            </>
          )}
        </div>
      )}
      <p>
        {evidenceSentence(row)}
        {of !== undefined && (
          <>
            {' · '}
            <Link to="/review/by-field" search={{ path: row.path, ...(of.document_type !== null && { document_type: of.document_type }) }}>
              View in all documents
            </Link>
          </>
        )}
      </p>
      {of !== undefined && (row.evidence?.places ?? 0) > 1 && <OtherPlaces key={`${row.path} ${of.version}`} of={of} row={row} onPlace={onPlace} />}
      {row.evidence?.quote && <p className={styles.quote}>{visibleText(row.evidence.quote)}</p>}
      {row.lock !== undefined && (
        <p className="muted">
          Confirmed by {row.lock.by === me.data?.user_id ? 'you' : 'another person'}, {atMoment(row.lock.at)}. The agent can suggest changes but won't
          overwrite it.
        </p>
      )}
    </section>
  );
}

const NEXT = { id: 'field.place', area: 'Fields', words: 'Next match', keys: 'p' };

/** Every place that the value could stand in, one after the other. */
function OtherPlaces({ of, row, onPlace }: { of: Pick<Extraction, 'id' | 'version'>; row: Leaf; onPlace: Props['onPlace'] }) {
  const { data } = useQuery(placesQuery(of.id, of.version, row.path));
  const [seen, setSeen] = useState<number | null>(null);
  const first = data?.findIndex((one) => one.page === row.evidence?.page && same(one.boxes[0], row.evidence?.boxes?.[0])) ?? -1;
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
      <Button kind="quiet" label="Previous match" onClick={() => go(-1)}>
        <Icon name="left" size={12} />
      </Button>
      <output>
        Match {at + 1} of {row.evidence!.places}
      </output>
      <Button kind="quiet" label="Next match" onClick={() => go(1)}>
        <Icon name="right" size={12} />
      </Button>
    </p>
  );
}

function same(one: readonly number[] | undefined, other: readonly number[] | undefined): boolean {
  return one !== undefined && other !== undefined && one.every((edge, index) => edge === other[index]);
}
