/** A call that waits for approval, with the page of its document. */

import { useQuery } from '@tanstack/react-query';
import { useMemo, useState } from 'react';
import type { Box, Run } from '../api/types';
import { ApprovalCard } from '../approvals/ApprovalCard';
import { waitingRunQuery } from '../run/approvalQueries';
import type { PendingCall } from '../approvals/pendingCall';
import { isFieldTool, marksOfValues, useProposedValues, writesValues } from '../approvals/proposedValues';
import { ValuesToApprove } from '../approvals/ValuesToApprove';
import { Avatar } from '../session/Avatar';
import { LoadingRows } from '../components/ui/Loading';
import { ErrorNotice } from '../components/ui/Notice';
import { usePersonName } from '../session/people';
import { formatAge } from '../shared/format';
import { t } from '../shared/i18n';
import type { InboxItem } from './inboxQueries';
import { PageAndPanel } from '../document/PageAndPanel';

interface Props {
  item: InboxItem;
  onDecided: () => void;
}

export function ApprovalPanel({ item, onDecided }: Props) {
  const run = useQuery(waitingRunQuery(item.run_id ?? ''));
  const call = run.data?.waits_for;
  if (run.isError) return <ErrorNotice error={run.error} />;
  if (run.data === undefined || call == null)
    return (
      <PageAndPanel documentId={item.document_id} isWide>
        <Who item={item} />
        <LoadingRows height={48} lines={Math.min(item.changes ?? 1, 12)} />
      </PageAndPanel>
    );
  return writesValues(call) ? (
    <Values key={call.call_id} item={item} run={run.data} call={call} onDecided={onDecided} />
  ) : (
    <PageAndPanel documentId={item.document_id} isWide>
      <div className="min-h-0 flex-1 overflow-y-auto">
        <Who item={item} />
        <ApprovalCard runId={run.data.id} call={call} onDecided={onDecided} />
      </div>
    </PageAndPanel>
  );
}

function Values({ item, run, call, onDecided }: Props & { run: Run; call: PendingCall }) {
  const { values } = useProposedValues(run.id, call);
  const [path, choose] = useState<string | null>(null);
  // Until a person chooses a value: the first one that is printed.
  const hasBox = (one: (typeof values)[number]) => (one.evidence?.boxes.length ?? 0) > 0;
  const chosen = values.find((one) => one.path === path) ?? values.find(hasBox) ?? values[0];
  const marks = useMemo(() => marksOfValues(values), [values]);
  const box = chosen?.evidence?.boxes[0] as Box | undefined;
  const at = chosen === undefined || box === undefined ? 0 : values.indexOf(chosen) + 1;
  return (
    <PageAndPanel
      documentId={item.document_id}
      isWide
      marks={marks}
      chosen={chosen?.path ?? null}
      place={{ page: chosen?.evidence?.page ?? 1, box, at }}
      onChoose={choose}>
      <ValuesToApprove runId={run.id} call={call} onDecided={onDecided} chosen={chosen?.path} onChoose={choose}>
        <Who item={item} />
      </ValuesToApprove>
    </PageAndPanel>
  );
}

/** Who started the run. */
function Who({ item }: { item: InboxItem }) {
  const personName = usePersonName(true);
  const { created_by: by, changes } = item;
  const person = by === null ? '' : personName(by);
  return (
    <div className="flex min-h-15 items-center gap-3 border-b border-border px-4">
      {by !== null && <Avatar id={by} size={28} />}
      <p className="min-w-0">
        <span className="inline-block font-medium first-letter:uppercase">{person}</span>{' '}
        {isFieldTool(item.tool) && changes !== null ? t('inbox.asksToWrite', { count: changes }) : t('inbox.asks')}{' '}
        <span className="text-muted-foreground">{formatAge(item.created_at)}</span>
      </p>
    </div>
  );
}
