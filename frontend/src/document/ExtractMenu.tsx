/** Starts an extraction: freely, by one of the kept schemas, or by one that an agent proposes. */

import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { startExtraction, startProposal } from '../api/runs';
import { Button } from '../shared/Button';
import { visibleText } from '../shared/format';
import { Menu, MenuItem, MenuLabel } from '../shared/Menu';
import { errorMessage } from '../shared/Notice';
import { Icon } from '../shared/Icon';
import { toast } from '../shared/Toasts';
import { schemasQuery } from './documentPageQueries';

interface Props {
  documentId: string;
  disabled: boolean;
  isFirst: boolean;
  onStarted: (runId: string) => void;
}

interface Wish {
  schemaRevid?: string;
  ask?: boolean;
}

export function ExtractMenu({ documentId, disabled, isFirst, onStarted }: Props) {
  const schemas = useQuery(schemasQuery);
  const start = useMutation({
    mutationFn: ({ schemaRevid, ask }: Wish) =>
      startExtraction(
        { document_id: documentId, ...(schemaRevid !== undefined && { schema_revid: schemaRevid }), ...(ask === true && { approval: 'ask' as const }) },
        crypto.randomUUID(),
      ),
    onSuccess: onStarted,
    onError: (error) => toast(errorMessage(error), { urgent: true }),
  });
  const queries = useQueryClient();
  const propose = useMutation({
    mutationFn: () => startProposal(documentId, crypto.randomUUID()),
    onSuccess: () => queries.invalidateQueries({ queryKey: ['document', documentId] }),
    onError: (error) => toast(errorMessage(error), { urgent: true }),
  });
  const button = (
    <Button kind={isFirst ? 'main' : 'plain'} disabled={disabled || start.isPending}>
      <Icon name="spark" /> Extract <Icon name="down" size={12} />
    </Button>
  );
  return (
    <Menu trigger={button}>
      <MenuItem onChoose={() => start.mutate({})}>Extract all fields</MenuItem>
      <MenuItem onChoose={() => start.mutate({ ask: true })}>Extract with approval</MenuItem>
      <MenuItem onChoose={() => propose.mutate()}>Suggest a schema</MenuItem>
      {(schemas.data?.length ?? 0) > 0 && <MenuLabel>Extract with a schema</MenuLabel>}
      {schemas.data?.map((schema) => (
        <MenuItem key={schema.id} onChoose={() => start.mutate({ schemaRevid: schema.schema_revid })}>
          <span className="truncate">{visibleText(schema.name)}</span>
          {schema.proposed && <span className="muted"> (suggestion, not accepted yet)</span>}
        </MenuItem>
      ))}
    </Menu>
  );
}
