/** A menu that starts an extraction: of all fields, with a saved prompt or schema, or with a schema that an agent suggests. */

import { useQuery } from '@tanstack/react-query';
import { ChevronDown, Sparkles } from 'lucide-react';
import { startExtraction, startProposal } from '../api/runs';
import { Button } from '../components/ui/Button';
import { visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { Menu, MenuItem, MenuLabel, SubMenu } from '../components/ui/Menu';
import { promptsQuery, schemasQuery } from '../fields/extractionQueries';
import { useChange } from '../shared/useChange';

interface Props {
  documentId: string;
  tagIds: readonly string[];
  disabled: boolean;
  isFirst: boolean;
  onStarted: (runId: string) => void;
}

interface StartOptions {
  promptId?: string;
  schemaId?: string;
  ask?: boolean;
  secondReading?: 'off' | 'unsure' | 'all';
}

export function ExtractMenu({ documentId, tagIds, disabled, isFirst, onStarted }: Props) {
  const schemas = useQuery(schemasQuery);
  // Prompts for documents with one of this document's tags come first, those for other documents last.
  const distance = (tags: readonly string[]) =>
    tags.some((tag) => tagIds.includes(tag)) ? 0 : tags.length === 0 ? 1 : 2;
  const prompts = (useQuery(promptsQuery).data ?? [])
    .filter((one) => !one.proposed)
    .sort((a, b) => distance(a.tag_ids) - distance(b.tag_ids));
  const start = useChange(
    [],
    ({ promptId, schemaId, ask, secondReading }: StartOptions) =>
      startExtraction(
        {
          document_id: documentId,
          ...(promptId !== undefined && { prompt_id: promptId }),
          ...(schemaId !== undefined && { schema_id: schemaId }),
          ...(ask === true && { approval: 'ask' as const }),
          ...(secondReading !== undefined && { second_reading: secondReading }),
        },
        crypto.randomUUID(),
      ),
    onStarted,
  );
  const propose = useChange([['document', documentId]], () => startProposal(documentId, crypto.randomUUID()));
  const isOff = disabled || start.isPending;
  const label = t('document.extract.button');
  const button = isFirst ? (
    <Button kind="main" icon={Sparkles} disabled={isOff}>
      {label} <ChevronDown size={14} aria-hidden="true" />
    </Button>
  ) : (
    <Button kind="quiet" icon={Sparkles} label={label} disabled={isOff} />
  );
  return (
    <Menu trigger={button}>
      <MenuItem onChoose={() => start.mutate({})}>{t('document.extract.all')}</MenuItem>
      <MenuItem onChoose={() => start.mutate({ ask: true })}>{t('document.extract.withApproval')}</MenuItem>
      <SubMenu label={t('agents.second_reading')}>
        {(['all', 'unsure', 'off'] as const).map((mode) => (
          <MenuItem key={mode} onChoose={() => start.mutate({ secondReading: mode })}>
            {t(`secondReading.${mode}`)}
          </MenuItem>
        ))}
      </SubMenu>
      <MenuItem onChoose={() => propose.mutate()}>{t('document.extract.suggestSchema')}</MenuItem>
      {prompts.length > 0 && <MenuLabel>{t('document.extract.withPrompt')}</MenuLabel>}
      {prompts.map((prompt) => (
        <MenuItem key={prompt.id} onChoose={() => start.mutate({ promptId: prompt.id })}>
          <span className="truncate">{visibleText(prompt.name)}</span>
        </MenuItem>
      ))}
      {(schemas.data?.length ?? 0) > 0 && <MenuLabel>{t('document.extract.withSchema')}</MenuLabel>}
      {schemas.data?.map((schema) => (
        <MenuItem key={schema.id} onChoose={() => start.mutate({ schemaId: schema.id })}>
          <span className="truncate">
            {schema.proposed
              ? t('document.extract.notAccepted', { name: visibleText(schema.name) })
              : visibleText(schema.name)}
          </span>
        </MenuItem>
      ))}
    </Menu>
  );
}
