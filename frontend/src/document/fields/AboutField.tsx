/** All that is known of the chosen field: where it was found, what the page prints, who set it, what is wrong with it. */

import { useQuery } from '@tanstack/react-query';
import type { Extraction } from '../../api/types';
import { meQuery } from '../../session/config';
import { Badge } from '../../shared/Badge';
import { Button } from '../../shared/Button';
import { atMoment, count, plain } from '../../shared/format';
import { Sign } from '../../shared/Sign';
import styles from './FieldPanel.module.css';
import type { FieldRow } from './fieldTree';
import { shown } from './fieldValue';
import { evidenceSentence, STANDINGS } from './standingWords';

interface Props {
  row: FieldRow | undefined;
  /** What an agent would have written here. */
  proposal: Extraction['proposals'][number] | undefined;
  onEdit: () => void;
  onDecide: (accept: boolean) => void;
  onUnlock: () => void;
}

export function AboutField({ row, proposal, onEdit, onDecide, onUnlock }: Props) {
  const me = useQuery(meQuery);
  if (row === undefined || row.kind === 'group') {
    return <section className={`${styles.about} soft`}>Choose a field to see where it stands. Double-click, or Enter, changes it.</section>;
  }
  const { words, tone, sign } = STANDINGS[row.standing];
  return (
    <section className={styles.about} aria-label={`About ${row.path}`}>
      <div className={styles.aboutHead}>
        <code className="cut" title={plain(row.path)}>
          {plain(row.path)}
        </code>
        <Badge tone={tone} sign={sign}>
          {words}
        </Badge>
        {row.standing !== 'preview' && <Button onClick={onEdit}>Edit</Button>}
        {row.lock !== undefined && (
          <Button onClick={onUnlock} title="Let agents change it again">
            <Sign name="lock" /> Unlock
          </Button>
        )}
      </div>
      {row.errors.map((error) => (
        <p key={error.code + error.message} className={styles.bad}>
          {error.message}
        </p>
      ))}
      {proposal !== undefined && (
        <div className={styles.aboutHead}>
          <span className="cut">
            An agent proposes {proposal.removed ? 'that nothing stands here' : <q>{shown(proposal.new)}</q>}
          </span>
          <Button onClick={() => onDecide(true)}>Accept</Button>
          <Button onClick={() => onDecide(false)}>Reject</Button>
        </div>
      )}
      <p>
        {evidenceSentence(row)}
        {(row.evidence?.places ?? 0) > 1 && ` · it could stand in ${count(row.evidence!.places, 'place')}`}
      </p>
      {row.evidence?.quote && <p className={styles.quote}>{plain(row.evidence.quote)}</p>}
      {row.lock !== undefined && (
        <p className="soft">
          Set by {row.lock.by === me.data?.user_id ? 'you' : 'another person'}, {atMoment(row.lock.at)}. Agents propose, and do not
          change it.
        </p>
      )}
    </section>
  );
}
