/** Options for uploads: the prompt that each is extracted with, or whether an agent suggests a schema, with which model. */

import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { promptsQuery } from '../document/documentPageQueries';
import { useOrganisation } from '../session/role';
import { visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { ModelInput } from '../shared/ModelInput';
import styles from './DocumentsPage.module.css';
import { uploadOptions } from './uploads';

export function UploadOptions() {
  const organisation = useOrganisation();
  const [autoCreate, setAutoCreate] = useState(uploadOptions.autoCreate);
  const [model, setModel] = useState(uploadOptions.model);
  const [promptId, setPromptId] = useState(uploadOptions.promptId);
  const prompts = (useQuery(promptsQuery).data ?? []).filter((one) => !one.proposed);
  const isOn = autoCreate ?? organisation?.auto_create ?? false;
  return (
    <span className={styles.options}>
      {prompts.length > 0 && (
        <select
          aria-label={t('documents.extractUploads')}
          value={promptId}
          onChange={(event) => {
            uploadOptions.promptId = event.target.value;
            setPromptId(event.target.value);
          }}>
          <option value="">{t('documents.noPrompt')}</option>
          {prompts.map((one) => (
            <option key={one.id} value={one.id}>
              {t('documents.extractWith', { name: visibleText(one.name) })}
            </option>
          ))}
        </select>
      )}
      <label hidden={promptId !== ''}>
        <input
          type="checkbox"
          checked={isOn}
          onChange={(event) => {
            uploadOptions.autoCreate = event.target.checked;
            setAutoCreate(event.target.checked);
          }}
        />{' '}
        {t('documents.suggestOnUpload')}
      </label>
      {promptId === '' && isOn && autoCreate !== null && (
        <ModelInput
          value={model}
          onChange={(next) => {
            uploadOptions.model = next;
            setModel(next);
          }}
        />
      )}
    </span>
  );
}
