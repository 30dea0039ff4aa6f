/** The values that a call would write, doubtful ones first. */

import { useQuery } from '@tanstack/react-query';
import { useMemo } from 'react';
import type { Box, Evidence } from '../api/types';
import type { Mark } from '../fields/fieldTree';
import { t } from '../shared/i18n';
import { proposedFieldsQuery } from '../run/approvalQueries';
import type { PendingCall, PendingChange, ProposedEvidence } from './pendingCall';

const FIELD_TOOLS = new Set(['extract_fields', 'update_field', 'remove_field', 'update_extraction_field']);

export function isFieldTool(tool: string | null): boolean {
  return tool !== null && FIELD_TOOLS.has(tool);
}

/** Whether a call would write values of fields. A call that fills rows may bring its own. */
export function writesValues({ tool, input }: Pick<PendingCall, 'tool' | 'input'>): boolean {
  return isFieldTool(tool) || (tool === 'extract_row' && input.values != null);
}

export interface ProposedValue extends PendingChange {
  evidence: Evidence | undefined;
  isDoubtful: boolean;
  /** It replaces another value. */
  isChange: boolean;
}

export function useProposedValues(runId: string, call: PendingCall) {
  const { data, isLoading } = useQuery(proposedFieldsQuery(runId, call.call_id));
  const values = useMemo(() => {
    const evidence = (data?.evidence ?? {}) as ProposedEvidence;
    const scores = data?.confidence_scores ?? {};
    const all = (call.changes ?? []).map((change): ProposedValue => {
      const found = evidence[change.path];
      const isChange = change.added !== true && change.old !== undefined && change.old !== null;
      const isDoubtful =
        isChange ||
        change.removed === true ||
        found?.state === 'not_found' ||
        found?.reason != null ||
        (scores[change.path] ?? 1) < 0.5;
      return { ...change, evidence: found, isChange, isDoubtful };
    });
    return [...all.filter((one) => one.isDoubtful), ...all.filter((one) => !one.isDoubtful)];
    // Polling replaces the object, not the call.
  }, [call.call_id, data]);
  return { values, isLoading };
}

export function doubtText({ evidence, removed, isChange }: ProposedValue): string {
  if (removed === true) return t('inbox.removes');
  if (evidence?.reason != null) return t(`fields.why.${evidence.reason}`);
  if (evidence?.state === 'not_found') return t('fields.why.not_found');
  return t(isChange ? 'inbox.replaces' : 'fields.why.low_confidence');
}

export function marksOfValues(values: readonly ProposedValue[]): ReadonlyMap<number, readonly Mark[]> {
  const all = new Map<number, Mark[]>();
  for (const { path, evidence, isDoubtful } of values) {
    if (evidence?.page == null) continue;
    const list = all.get(evidence.page) ?? [];
    for (const box of evidence.boxes) list.push({ path, box: box as Box, status: isDoubtful ? 'unclear' : 'found' });
    all.set(evidence.page, list);
  }
  return all;
}
