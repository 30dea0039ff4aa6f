/** A menu that starts an extraction: of all fields, with a saved schema, or with one that an agent suggests. */

import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { startExtraction, startProposal } from '../api/runs';
import { Button } from '../shared/Button';
import { visibleText } from '../shared/format';
import { t } from '../shared/i18n';
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

interface StartOptions {
  schemaRevid?: string;
  ask?: boolean;
}

export function ExtractMenu({ documentId, disabled, isFirst, onStarted }: Props) {
  const schemas = useQuery(schemasQuery);
  const start = useMutation({
    mutationFn: ({ schemaRevid, ask }: StartOptions) =>
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
      <Icon name="spark" /> {t('document.extract.button')} <Icon name="down" size={12} />
    </Button>
  );
  return (
    <Menu trigger={button}>
      <MenuItem onChoose={() => start.mutate({})}>{t('document.extract.all')}</MenuItem>
      <MenuItem onChoose={() => start.mutate({ ask: true })}>{t('document.extract.withApproval')}</MenuItem>
      <MenuItem onChoose={() => propose.mutate()}>{t('document.extract.suggestSchema')}</MenuItem>
      {(schemas.data?.length ?? 0) > 0 && <MenuLabel>{t('document.extract.withSchema')}</MenuLabel>}
      {schemas.data?.map((schema) => (
        <MenuItem key={schema.id} onChoose={() => start.mutate({ schemaRevid: schema.schema_revid })}>
          <span className="truncate">{schema.proposed ? t('document.extract.notAccepted', { name: visibleText(schema.name) }) : visibleText(schema.name)}</span>
        </MenuItem>
      ))}
    </Menu>
  );
}
