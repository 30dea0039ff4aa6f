/** A picker for the extraction that is shown, if a document has several. */

import type { ExtractionSummary } from '../api/types';
import { Button } from '../components/ui/Button';
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

/** Below the newest result: the completed one before it. Below an older one: that there is a newer one. */
export function OtherResult({ all, shown, current, onChoose }: Props) {
  const newest = all.findIndex((one) => one.id === current);
  const isNewest = shown === current;
  const other = isNewest ? all.slice(newest + 1).find((one) => one.status === 'completed') : all[newest];
  if (newest < 0 || other === undefined) return null;
  return (
    <p className="muted">
      {isNewest ? t('document.previousResult', { time: formatTime(other.created_at) }) : t('document.olderResult')}{' '}
      <Button kind="quiet" onClick={() => onChoose(other.id)}>
        {t(isNewest ? 'document.openResult' : 'document.openNewest')}
      </Button>
    </p>
  );
}
