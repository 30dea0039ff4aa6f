/** One value to be decided: why it is asked for, what the page prints, and what shall stand. */

import { useLayoutEffect, useRef, useState } from 'react';
import type { Box, Extraction, RuleReading } from '../api/types';
import type { Leaf } from '../document/fields/fieldTree';
import { readWritten, shown, written } from '../document/fields/fieldValue';
import { SuggestedFixes } from '../document/fields/SuggestedFixes';
import { evidenceSentence, FIELD_STATUSES } from '../document/fields/fieldStatus';
import { useWordPicker } from '../document/viewer/picking';
import { Badge } from '../shared/Badge';
import { Button } from '../shared/Button';
import { visibleText } from '../shared/format';
import { Crop } from './Crop';
import styles from './Review.module.css';

interface Props {
  documentId: string;
  field: Leaf;
  proposal: Extraction['proposals'][number] | undefined;
  readings: readonly RuleReading[];
  onConfirm: () => void;
  onWrite: (value: unknown) => void;
  onUndo: (() => void) | undefined;
  onProposal: (accepted: boolean) => void;
  onSkip: () => void;
  onLeaveEmpty: () => void;
}

export function ReviewCard({ documentId, field, proposal, readings, onConfirm, onWrite, onUndo, onProposal, onSkip, onLeaveEmpty }: Props) {
  const [text, setText] = useState(() => written(field.value));
  const input = useRef<HTMLInputElement>(null);
  useLayoutEffect(() => input.current?.select(), []); // before a letter can come that it would choose, too
  // Changed by somebody else while it is looked at: what was written here stays, what was not is theirs.
  const [was, setWas] = useState(field.value);
  const [isMoved, setMoved] = useState(false);
  if (written(was) !== written(field.value)) {
    setWas(field.value);
    if (text === written(was)) setText(written(field.value));
    else setMoved(true);
  }
  useWordPicker((words, isMore) => {
    setText(isMore && text !== '' ? `${text} ${words}` : words);
    input.current?.focus();
  });
  const { words, tone, icon } = FIELD_STATUSES[field.status];
  const isChanged = text !== written(field.value);
  const isMissing = field.status === 'missing';
  const { page, boxes } = field.evidence ?? {};
  const box = boxes?.[0] as Box | undefined;

  const confirm = () => {
    if (isChanged) onWrite(readWritten(text, field.value, field.type));
    else if (isMissing) return;
    else if (proposal !== undefined) onProposal(false);
    else onConfirm();
  };
  return (
    <section className={styles.card} aria-label={`To check: ${visibleText(field.path)}`}>
      <div className={styles.head}>
        <code className="truncate">{visibleText(field.path)}</code>
        <Badge tone={tone} icon={icon}>
          {words}
        </Badge>
      </div>
      {field.errors.map((error) => (
        <p key={error.code + error.message} className={styles.bad}>
          {error.message}
        </p>
      ))}
      {isMoved && <p className={styles.bad}>Someone changed this to {shown(field.value) || 'nothing'}.</p>}
      <SuggestedFixes readings={readings} path={field.path} onTake={onWrite} />
      <p className="muted">{evidenceSentence(field)}</p>
      {page != null && box !== undefined && <Crop documentId={documentId} page={page} box={box} />}
      <input
        ref={input}
        className={styles.input}
        aria-label={`Value of ${visibleText(field.path)}`}
        value={text}
        spellCheck={false}
        autoFocus
        onChange={(event) => setText(event.target.value)}
        onKeyDown={(event) => {
          // Held down, or of an input method, it decides nothing.
          if (event.repeat || event.nativeEvent.isComposing) return;
          if (event.key === 'z' && (event.ctrlKey || event.metaKey) && !isChanged && onUndo !== undefined) {
            event.preventDefault();
            onUndo();
          } else if (event.key === 'Enter' && event.altKey && proposal !== undefined) onProposal(true);
          else if (event.key === 'Enter') confirm();
          else if (event.key === 'Escape') onSkip();
        }}
      />
      {proposal !== undefined && (
        <p>
          Suggested: {proposal.removed ? 'remove' : <q>{shown(proposal.new)}</q>}
        </p>
      )}
      <div className={styles.buttons}>
        <Button kind="main" disabled={isMissing && !isChanged} onClick={confirm}>
          {isChanged || isMissing ? 'Save' : proposal === undefined ? 'Confirm' : 'Keep current'} <kbd>Enter</kbd>
        </Button>
        {isMissing && <Button onClick={onLeaveEmpty}>Not in the document</Button>}
        {proposal !== undefined && (
          <Button onClick={() => onProposal(true)}>
            Accept suggestion <kbd>Alt Enter</kbd>
          </Button>
        )}
        <Button kind="quiet" onClick={onSkip}>
          Skip <kbd>Esc</kbd>
        </Button>
      </div>
      <p className="muted">Click a word or drag a box on the page to fill this in. Shift adds to it.</p>
    </section>
  );
}
