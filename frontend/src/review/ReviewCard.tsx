/** One value to review: why it needs review, an excerpt of the page, and an editor. */

import { useLayoutEffect, useRef, useState } from 'react';
import type { Box, Extraction, RuleFix } from '../api/types';
import type { Leaf } from '../document/fields/fieldTree';
import { displayValue, editedText, parseEdited } from '../document/fields/fieldValue';
import { pathLabel } from '../document/fields/labels';
import { SuggestedFixes } from '../document/fields/SuggestedFixes';
import { describeEvidence, FIELD_STATUSES } from '../document/fields/fieldStatus';
import { violationText } from '../document/fields/violationText';
import type { SchemaField } from '../document/schemaFields';
import { useWordPicker } from '../document/viewer/picking';
import { Badge } from '../shared/Badge';
import { Button } from '../shared/Button';
import { visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { Crop } from './Crop';
import styles from './Review.module.css';

interface Props {
  documentId: string;
  field: Leaf;
  schema: readonly SchemaField[];
  proposal: Extraction['proposals'][number] | undefined;
  ruleFixes: readonly RuleFix[];
  onConfirm: () => void;
  onWrite: (value: unknown) => void;
  onUndo: (() => void) | undefined;
  onProposal: (accepted: boolean) => void;
  onSkip: () => void;
  onLeaveEmpty: () => void;
}

export function ReviewCard({ documentId, field, schema, proposal, ruleFixes, onConfirm, onWrite, onUndo, onProposal, onSkip, onLeaveEmpty }: Props) {
  const [text, setText] = useState(() => editedText(field.value));
  const input = useRef<HTMLInputElement>(null);
  useLayoutEffect(() => input.current?.select(), []); // before a key can be pressed
  // Changed by someone else meanwhile: show their value, unless the person has typed one.
  const [was, setWas] = useState(field.value);
  const [isMoved, setMoved] = useState(false);
  if (editedText(was) !== editedText(field.value)) {
    setWas(field.value);
    if (text === editedText(was)) setText(editedText(field.value));
    else setMoved(true);
  }
  useWordPicker((words, isMore) => {
    setText(isMore && text !== '' ? `${text} ${words}` : words);
    input.current?.focus();
  });
  const { tone, icon } = FIELD_STATUSES[field.status];
  const label = pathLabel(field.path, schema);
  const isChanged = text !== editedText(field.value);
  const isMissing = field.status === 'missing';
  const { page, boxes } = field.evidence ?? {};
  const box = boxes?.[0] as Box | undefined;

  const confirm = () => {
    if (isChanged) onWrite(parseEdited(text, field.value, field.field?.type));
    else if (isMissing) return;
    else if (proposal !== undefined) onProposal(false);
    else onConfirm();
  };
  return (
    <section className={styles.card} aria-label={t('review.label', { field: label })}>
      <div className={styles.head}>
        <b className="truncate" title={visibleText(field.path)}>
          {label}
        </b>
        <Badge tone={tone} icon={icon}>
          {t(`fields.statuses.${field.status}`)}
        </Badge>
      </div>
      {field.errors.map((error) => (
        <p key={error.code + error.message} className={styles.bad}>
          {violationText(error, schema)}
        </p>
      ))}
      {isMoved && <p className={styles.bad}>{t('review.someoneChanged', { value: displayValue(field.value) || t('fields.nothing') })}</p>}
      <SuggestedFixes ruleFixes={ruleFixes} path={field.path} field={field.field} onUse={onWrite} />
      <p className="muted">{describeEvidence(field)}</p>
      {page != null && box !== undefined && <Crop documentId={documentId} page={page} box={box} />}
      <input
        ref={input}
        className={styles.input}
        aria-label={t('fields.valueOf', { field: label })}
        value={text}
        spellCheck={false}
        autoFocus
        onChange={(event) => setText(event.target.value)}
        onKeyDown={(event) => {
          // Ignore repeated keys and input methods.
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
        <p>{proposal.removed ? t('fields.proposedRemoval') : t('fields.proposed', { value: displayValue(proposal.new, field.field) })}</p>
      )}
      <div className={styles.buttons}>
        <Button kind="main" disabled={isMissing && !isChanged} onClick={confirm}>
          {t(isChanged || isMissing ? 'common.save' : proposal === undefined ? 'common.confirm' : 'review.keepCurrent')} <kbd>Enter</kbd>
        </Button>
        {isMissing && <Button onClick={onLeaveEmpty}>{t('review.notInDocument')}</Button>}
        {proposal !== undefined && (
          <Button onClick={() => onProposal(true)}>
            {t('review.acceptProposal')} <kbd>Alt Enter</kbd>
          </Button>
        )}
        <Button kind="quiet" onClick={onSkip}>
          {t('common.skip')} <kbd>Esc</kbd>
        </Button>
      </div>
      <p className="muted">{t('review.pickHint')}</p>
    </section>
  );
}
