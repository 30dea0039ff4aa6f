/** One value to review: why it needs review, an excerpt of the page, and an editor. */

import { useLayoutEffect, useRef, useState } from 'react';
import type { Box, RuleFix } from '../api/types';
import { displayValue, editedText, parseEdited } from '../document/fields/fieldValue';
import { pathLabel } from '../document/fields/labels';
import { SuggestedFixes } from '../document/fields/SuggestedFixes';
import { canBeBlank, describeEvidence, statusSign, statusText } from '../document/fields/fieldStatus';
import { ProposedValue } from '../document/fields/ProposedValue';
import type { Proposal } from '../document/fields/proposals';
import { violationText } from '../document/fields/violationText';
import type { SchemaField } from '../document/schemaFields';
import { useWordPicker } from '../document/viewer/picking';
import { Badge } from '../shared/Badge';
import { Button } from '../components/ui/Button';
import { visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { Crop } from './Crop';
import type { ToReviewRow } from './fieldsToReview';
import styles from './Review.module.css';

interface Props {
  documentId: string;
  field: ToReviewRow;
  schema: readonly SchemaField[];
  proposal: Proposal | undefined;
  ruleFixes: readonly RuleFix[];
  onConfirm: () => void;
  /** `path`: of another field, that a rule fix would change. */
  onWrite: (value: unknown, path?: string) => void;
  onUndo: (() => void) | undefined;
  onProposal: (accepted: boolean) => void;
  onSkip: () => void;
}

export function ReviewCard({
  documentId,
  field,
  schema,
  proposal,
  ruleFixes,
  onConfirm,
  onWrite,
  onUndo,
  onProposal,
  onSkip,
}: Props) {
  // An object or a list has no editor: its fields are rows of their own.
  const leaf = field.kind === 'leaf' ? field : undefined;
  const value = leaf?.value;
  const [text, setText] = useState(() => editedText(value));
  const input = useRef<HTMLInputElement>(null);
  useLayoutEffect(() => input.current?.select(), []); // before a key can be pressed
  // Changed by someone else meanwhile: show their value, unless the person has typed one.
  const [was, setWas] = useState(value);
  const [isMoved, setMoved] = useState(false);
  if (editedText(was) !== editedText(value)) {
    setWas(value);
    if (text === editedText(was)) setText(editedText(value));
    else setMoved(true);
  }
  useWordPicker((words, isMore) => {
    setText(isMore && text !== '' ? `${text} ${words}` : words);
    input.current?.focus();
  });
  const { tone, icon } = statusSign(field);
  const label = pathLabel(field.path, schema);
  const isChanged = text !== editedText(value);
  const isMissing = leaf !== undefined && value === undefined;
  const { page, boxes } = leaf?.evidence ?? {};
  const box = boxes?.[0] as Box | undefined;

  const confirm = () => {
    if (isChanged) onWrite(parseEdited(text, value, leaf?.field?.type));
    else if (isMissing) return;
    else if (proposal !== undefined) onProposal(false);
    else onConfirm();
  };
  const breaks = field.reason === 'breaks_schema' || field.reason === 'breaks_rule';
  const confirmLabel = proposal !== undefined ? 'review.keepCurrent' : breaks ? 'fields.keep' : 'common.confirm';
  return (
    <section className={styles.card} aria-label={t('review.label', { field: label })}>
      <div className={styles.head}>
        <b className="truncate" title={visibleText(field.path)}>
          {label}
        </b>
        <Badge tone={tone} icon={icon}>
          {statusText(field, leaf?.evidence, leaf?.confidence)}
        </Badge>
      </div>
      {field.errors.map((error) => (
        <p key={error.code + error.message} className={styles.bad}>
          {violationText(error, schema)}
        </p>
      ))}
      {isMoved && (
        <p className={styles.bad}>
          {t('review.someoneChanged', { value: displayValue(value) || t('fields.nothing') })}
        </p>
      )}
      <SuggestedFixes
        ruleFixes={ruleFixes}
        path={field.path}
        schema={schema}
        onUse={(path, fix) => onWrite(fix, path)}
      />
      {leaf !== undefined && <p className="muted">{describeEvidence(leaf)}</p>}
      {page != null && box !== undefined && <Crop documentId={documentId} page={page} box={box} />}
      {leaf !== undefined && (
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
      )}
      {proposal !== undefined && <ProposedValue proposal={proposal} path={field.path} schema={schema} />}
      <div className={styles.buttons}>
        <Button kind="main" autoFocus={leaf === undefined} disabled={isMissing && !isChanged} onClick={confirm}>
          {t(isChanged || isMissing ? 'common.save' : confirmLabel)} <kbd>Enter</kbd>
        </Button>
        {leaf !== undefined && proposal === undefined && canBeBlank(field, value) && (
          <Button onClick={() => onWrite(null)}>{t('fields.notInDocument')}</Button>
        )}
        {proposal !== undefined && (
          <Button onClick={() => onProposal(true)}>
            {t('review.acceptProposal')} <kbd>Alt Enter</kbd>
          </Button>
        )}
        <Button kind="quiet" onClick={onSkip}>
          {t('common.skip')} <kbd>Esc</kbd>
        </Button>
      </div>
      {leaf !== undefined && <p className="muted">{t('review.pickHint')}</p>}
    </section>
  );
}
