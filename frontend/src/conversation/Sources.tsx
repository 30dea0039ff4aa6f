/** The sources of an answer: the first three as excerpts of their pages, then the others. */

import { useState } from 'react';
import type { Box, Source } from '../api/types';
import { Button } from '../components/ui/Button';
import { Crop } from '../viewer/Crop';
import { visibleText } from '../shared/format';
import { t } from '../shared/i18n';

const SHOWN = 3;

interface Props {
  sources: readonly Source[];
  onShow: (source: Source) => void;
}

export function Sources({ sources, onShow }: Props) {
  const [isAll, setAll] = useState(false);
  const more = sources.length - SHOWN;
  return (
    <section className="grid gap-2 pt-2">
      <div className="flex items-center justify-between">
        <h3>{t('chat.sources')}</h3>
        {more > 0 && (
          <Button kind="quiet" className="-mr-2.5 text-link" aria-expanded={isAll} onClick={() => setAll(!isAll)}>
            {isAll ? t('answer.fewer') : t('answer.more', { count: more })}
          </Button>
        )}
      </div>
      <ol
        className="grid grid-cols-[repeat(auto-fill,minmax(min(13rem,100%),1fr))] gap-3"
        aria-label={t('chat.sources')}>
        {sources.slice(0, isAll ? undefined : SHOWN).map((source) => (
          <li key={source.number} className="min-w-0">
            <button
              type="button"
              className="grid h-full w-full content-start gap-2 rounded-lg border border-border bg-card p-2.5 text-left hover:bg-hover"
              onClick={() => onShow(source)}>
              {source.boxes[0] === undefined ? (
                <q className="line-clamp-2 min-h-8 text-muted-foreground">{visibleText(source.quote)}</q>
              ) : (
                <Crop documentId={source.document_id} page={source.page} box={source.boxes[0] as unknown as Box} />
              )}
              <span className="min-w-0">
                <span className="block truncate">
                  <span className="text-muted-foreground">{source.number}</span> {visibleText(source.filename)}
                </span>
                <span className="block truncate text-xs text-muted-foreground">
                  {visibleText(source.quote)}, {t('common.pageFirst', { page: source.page })}
                </span>
              </span>
            </button>
          </li>
        ))}
      </ol>
    </section>
  );
}

export function sourceLabel(source: Source): string {
  return t('chat.sourcePage', { name: visibleText(source.filename), page: source.page });
}
