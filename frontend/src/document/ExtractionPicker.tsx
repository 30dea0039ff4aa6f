/** A picker for the extraction that is shown, if a document has several. */

import type { ExtractionSummary } from '../api/types';
import { formatTime } from '../shared/format';
import { t } from '../shared/i18n';

interface Props {
  all: readonly ExtractionSummary[];
  shown: string;
  current: string | null;
  onChoose: (extractionId: string) => void;
}

export function ExtractionPicker({ all, shown, current, onChoose }: Props) {
  if (all.length < 2) return null;
  return (
    <select aria-label={t('document.extraction')} value={shown} onChange={(event) => onChoose(event.target.value)}>
      {all.map((one) => (
        <option key={one.id} value={one.id}>
          {t(one.id === current ? 'document.currentExtraction' : 'document.extractionOption', {
            time: formatTime(one.created_at),
            status: t(`document.extractionStatuses.${one.status}`),
          })}
        </option>
      ))}
    </select>
  );
}
