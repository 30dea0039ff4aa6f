/** What every call that waits has: a reason to reject it, the rest of the run, and why a decision failed. */

import { ChevronDown } from 'lucide-react';
import { useState } from 'react';
import { ApiError } from '../api/client';
import { Button } from '../components/ui/Button';
import { Form } from '../components/ui/Form';
import { Input } from '../components/ui/Input';
import { Menu, MenuItem } from '../components/ui/Menu';
import { ErrorNotice, Notice } from '../components/ui/Notice';
import { displayValue } from '../fields/fieldValue';
import { pathLabel } from '../fields/labels';
import { toolName } from '../run/toolText';
import { t } from '../shared/i18n';
import { refusalTexts } from './refusalText';
import type { CallDecision, useDecideCall } from './useDecideCall';

interface RejectProps {
  disabled: boolean;
  onReject: (decision: CallDecision) => void;
  onClose: () => void;
}

export function RejectForm({ disabled, onReject, onClose }: RejectProps) {
  const [text, setText] = useState('');
  const reason = text.trim();
  return (
    <Form
      className="flex flex-1 flex-wrap gap-2"
      onSubmit={() => {
        onReject({ approved: false, ...(reason !== '' && { reason }) });
      }}>
      <Input
        autoFocus
        className="w-auto! min-w-40 flex-1"
        aria-label={t('approvals.reason')}
        placeholder={t('approvals.reasonHint')}
        maxLength={2000}
        value={text}
        onValueChange={setText}
        onKeyDown={(event) => event.key === 'Escape' && onClose()}
      />
      <Button kind="main" size="md" type="submit" disabled={disabled}>
        {t('common.reject')}
      </Button>
      <Button kind="quiet" size="md" onClick={onClose}>
        {t('common.back')}
      </Button>
    </Form>
  );
}

interface RestProps {
  tool: string;
  disabled: boolean;
  onApprove: (rest: 'tool' | 'all') => void;
}

/** Approve this call and others of the run. */
export function ApproveRestMenu({ tool, disabled, onApprove }: RestProps) {
  return (
    <Menu trigger={<Button kind="quiet" icon={ChevronDown} disabled={disabled} label={t('approvals.more')} />}>
      <MenuItem onChoose={() => onApprove('tool')}>{t('approvals.allowTool', { tool: toolName(tool) })}</MenuItem>
      <MenuItem onChoose={() => onApprove('all')}>{t('approvals.allowAll')}</MenuItem>
    </Menu>
  );
}

/** Why the person may not decide, or why the decision failed; if values changed since they were shown, what they are now. */
export function DecisionProblem({ error, refusal }: Pick<ReturnType<typeof useDecideCall>, 'error' | 'refusal'>) {
  const isMoved = error instanceof ApiError && error.code === 'target_changed';
  const moved = (isMoved ? (error.problem?.changes ?? []) : []) as { path: string; old: unknown; shown: unknown }[];
  const details =
    error instanceof ApiError && error.status === 422 && error.problem !== undefined
      ? refusalTexts(error.problem, error.message)
      : [];
  return (
    <>
      {error !== null && <ErrorNotice error={error} />}
      {details.map((text) => (
        <p key={text}>{text}</p>
      ))}
      {moved.map((one) => (
        <p key={one.path} className="text-need">
          {t('approvals.moved', {
            field: pathLabel(one.path),
            value: displayValue(one.old) || t('fields.nothing'),
            before: displayValue(one.shown) || t('fields.nothing'),
          })}
        </p>
      ))}
      {refusal !== null && <Notice kind="unsure">{t(`approvals.refusals.${refusal}`)}</Notice>}
    </>
  );
}
